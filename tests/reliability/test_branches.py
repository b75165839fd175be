"""The report of branches: it has the branches of the operator that no history ran, and no others."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.reliability import branches
from tests.reliability.branches import Reached, all_branches, report
from tests.reliability.simulation import simulate

GATES = Path(__file__).parents[2] / "operator" / "kafkafeatures" / "core" / "engine" / "gates.py"


def line_of(words: str) -> int:
    """The line of `core/engine/gates.py` that begins with these words."""
    lines = GATES.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(words))


def test_the_report_of_branches_has_the_branches_that_no_history_ran() -> None:
    begun = ("core/engine/gates.py", line_of("    pinned, memory = inputs.desired.cluster_id, inputs.memory"))
    with Reached() as reached:
        simulate(2)
    assert begun in reached.branches
    assert reached.branches < all_branches()
    text = report(reached.branches, 1)
    assert text.startswith(f"branches: {len(all_branches()) - len(reached.branches)} of {len(all_branches())} are not")
    for name, line in reached.branches:
        assert str(line) not in next((one for one in text.splitlines() if f" {name}: " in one), "").split()


def test_a_branch_is_a_line_that_may_or_may_not_run() -> None:
    source = '''
def one(value):
    """Of a function, its first line that does something."""
    if value:
        return 1
    else:
        pass
    match value:
        case 2:
            return 2
        case _:
            assert_never(value)

class Port(Protocol):
    def never_run(self):
        ...
'''
    # The first line of the body, and the lines with `return`; the source begins with an empty line.
    assert sorted(branches._lines(ast.parse(source))) == [4, 5, 10]
