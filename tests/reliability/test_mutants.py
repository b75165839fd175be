"""The catalogue of mutants: each fits the code as it is, is put into a copy of it, and is reached by tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.reliability.calibration import DEFECTS, defective, source_of
from tests.reliability.mutant import Mutant
from tests.reliability.mutants import AREAS, MUTANTS
from tests.reliability.mutating import PROGRAMMES, Copy

OPERATOR = Path(__file__).parents[2] / "operator"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_the_replaced_code_of_a_mutant_occurs_once_in_its_file(mutant: Mutant) -> None:
    """If this fails, the code was changed: change the mutant as well, or write another fault of the same rule."""
    source = (OPERATOR / mutant.file).read_text()
    assert source.count(mutant.old) == 1, f"{mutant.file} has these words {source.count(mutant.old)} times"
    ast.parse(source.replace(mutant.old, mutant.new))
    assert mutant.old != mutant.new


def test_no_mutant_or_defect_uses_a_name_that_is_not_defined(tmp_path: Path) -> None:
    """Any test finds a NameError, which proves nothing about the rule that the mutant breaks."""
    for number, mutant in enumerate(MUTANTS):
        source = (OPERATOR / mutant.file).read_text().replace(mutant.old, mutant.new)
        (tmp_path / f"mutant_{number}.py").write_text(source)
    for number, defect in enumerate(DEFECTS):
        for module in defect.by_module:
            source = defective(defect, module, source_of(module))
            (tmp_path / f"defect_{number}_{module.replace('.', '_')}.py").write_text(source)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    done = subprocess.run([*command, tmp_path], stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout == "All checks passed!\n"


def test_every_area_has_twenty_mutants_and_no_two_have_the_same_name() -> None:
    of_area = Counter(one.area for one in MUTANTS)
    assert set(of_area) == set(AREAS)
    assert min(of_area.values()) >= 20, of_area
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_a_mutant_is_put_into_a_copy_of_the_tree_and_removed_again(tmp_path: Path) -> None:
    mutant = next(one for one in MUTANTS if one.file == "featurelog/gate.py")
    ours = (OPERATOR / mutant.file).read_text()
    copy, script = Copy(tmp_path), ["py_compile", f"operator/{mutant.file}"]
    with copy.with_mutant(mutant):
        assert (tmp_path / "operator" / mutant.file).read_text() == ours.replace(mutant.old, mutant.new)
        assert copy.run([script]) == ""
        assert copy.run([script, ["no_such_module"], script]).endswith("No module named no_such_module")
    assert (tmp_path / "operator" / mutant.file).read_text() == ours == (OPERATOR / mutant.file).read_text()


def test_every_mutant_is_reached_by_the_unit_tests_and_its_tests_exist() -> None:
    for mutant in MUTANTS:
        assert PROGRAMMES["units"].reaches(mutant)
        commands = PROGRAMMES["units"].commands(mutant, 1)
        paths = [one for command in commands for one in command if one.startswith("tests/")]
        assert paths
        assert all((OPERATOR.parent / one).exists() for one in paths), mutant
