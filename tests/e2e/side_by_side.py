"""Which tests on real nodes may run side by side: those of two files; but whoever shares a cluster or the node stays
together. Each process has clusters of its own.

A plugin of pytest for pytest-xdist, as `python -m tests.run` has it: `python -m pytest -p tests.e2e.side_by_side -n 3
--dist loadscope --no-loadscope-reorder`.
"""

from __future__ import annotations

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

FOLDER = re.compile(r"kubernetes/(\w+)/")  # its conftest.py has a control plane, a node, a Kafka, or people
SIX = re.compile(r"kafka/test_(asking|describe|nodes_that_are_gone)\.py.*\[(\d+\.\d+\.\d+)")  # see kafka/conftest.py

FIRST = (
    *("on_node", "test_outages", "test_many", "one_kafka", "test_lost_connections"),
    *("test_downgrades", "six", "test_followed_logs", "test_killed"),
)
"""What takes longest begins first, so that nobody is left with it at the end."""


def together(nodeid: str) -> str:
    """The same for two tests that need one process."""
    if folder := FOLDER.search(nodeid):
        return folder[1]
    six = SIX.search(nodeid)
    return f"six {six[2]}" if six else nodeid.partition("::")[0].rpartition("/")[2]


def place(nodeid: str) -> int:
    return next((number for number, name in enumerate(FIRST) if together(nodeid).startswith(name)), len(FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "six" in getattr(item, "fixturenames", ()):
            assert SIX.search(item.nodeid), f"{item.nodeid} shares six nodes"
    items.sort(key=lambda item: place(item.nodeid))


class Together(LoadScopeScheduling):  # type: ignore[misc]  # ships no types
    """Each process takes the next tests that belong together, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """As late as can be: pytest wants to know the next test before the last one it has begins."""
        if self._pending_of(self.assigned_work[node]) <= 1 or not self.workqueue:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
