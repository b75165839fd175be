"""Which tests on real nodes may run side by side: those of two files; but whoever shares a cluster or the node stays
together. Each process has clusters of its own.

A plugin of pytest for pytest-xdist, as `python -m tests.run` has it: `python -m pytest -p tests.e2e.side_by_side -n 2
--dist loadscope --no-loadscope-reorder`.
"""

from __future__ import annotations

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

NODE = re.compile(r"kubernetes/test_(install|node)\.py")  # there is one on a machine
FOLDER = re.compile(r"kubernetes/(chart|command_line)/")  # their conftest.py has a control plane, or people in it
SIX = re.compile(r"kafka/test_(asking|describe|nodes_that_are_gone)\.py.*\[(\d+\.\d+\.\d+)")  # see kafka/conftest.py

FIRST = ("node", "test_outages", "test_many", "test_downgrades", "six", "test_followed_logs", "test_killed")
"""What takes longest begins first, so that nobody is left with it at the end."""


def together(nodeid: str) -> str:
    """The same for two tests that need one process."""
    if NODE.search(nodeid):
        return "node"
    if folder := FOLDER.search(nodeid):
        return folder[1]
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


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
