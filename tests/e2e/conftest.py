"""Which tests may run side by side: those of two files; but whoever shares a cluster or the node stays together.

`python -m tests.run` gives these suites several processes (pytest-xdist), and each has clusters of its own.
"""

from __future__ import annotations

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

NODE = re.compile(r"kubernetes/test_(install|node)\.py")  # there is one on a machine
SIX = re.compile(r"kafka/test_(asking|describe|nodes_that_are_gone)\.py.*\[(\d+\.\d+\.\d+)")  # see kafka/conftest.py

FIRST = (
    "node",
    "test_outages.py",
    "test_many.py",
    "test_downgrades.py",
    "six",
    "test_followed_logs.py",
    "test_killed.py",
)
"""What takes longest begins first, so that nobody is left with it at the end."""


def together(nodeid: str) -> str:
    """The same for two tests that need one process."""
    if NODE.search(nodeid):
        return "node"
    six = SIX.search(nodeid)
    return f"six {six[2]}" if six else nodeid.partition("::")[0].rpartition("/")[2]


def place(nodeid: str) -> int:
    return next((number for number, name in enumerate(FIRST) if together(nodeid).startswith(name)), len(FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shared = {"node", "six"} & set(getattr(item, "fixturenames", ()))
        assert all(together(item.nodeid).startswith(name) for name in shared), f"{item.nodeid} shares {shared}"
    items.sort(key=lambda item: place(item.nodeid))


class Together(LoadScopeScheduling):  # type: ignore[misc]  # ships no types
    """Each process takes the next tests that belong together, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
