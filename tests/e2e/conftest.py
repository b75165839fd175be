"""Which tests may run side by side: those of two files; but whoever shares a cluster or the node stays together.

`python -m tests.run` gives these suites several processes (pytest-xdist), and each has clusters of its own.
"""

from __future__ import annotations

import pytest

FIRST = ("node", "test_outages.py", "test_many.py", "six-", "test_followed_logs.py", "test_killed.py", "test_plan.py")
"""What takes longest begins first, so that nobody is left with it at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: place(group_of(item)))


def group_of(item: pytest.Item) -> str:
    """`six` are the clusters that files share; and there is one node on a machine."""
    assert isinstance(item, pytest.Function)
    if "six" in item.fixturenames:
        return f"six-{item.callspec.params['six']}"
    return "node" if "node" in item.fixturenames else item.path.name


def place(group: str) -> int:
    return next((number for number, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))
