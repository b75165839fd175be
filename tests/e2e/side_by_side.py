"""Which tests on real nodes may run side by side: those of two files; but tests that share a cluster or the node stay
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

from tests.e2e.rig.releases import NEWEST, OLD

RELEASE = r"\[.*?(\d+\.\d+\.\d+)"
TOGETHER = tuple(
    (re.compile(pattern), name)
    for pattern, name in {
        r"kubernetes/(\w+)/": r"\1",  # its conftest.py has a control plane, a node, a Kafka, or people
        # By the name of a cluster in kafka/conftest.py.
        rf"kafka/test_(?:asking|describe|nodes_that_are_gone)\.py.*{RELEASE}": r"six \1",
        rf"kafka/test_\w+\.py::test_(?:a_real_node_gives_the_answers|the_newest_level_of_each).*{RELEASE}": r"small \1",
        r"kafka/test_plan\.py::test_an_old_kafka_": f"small {OLD}",
        r"kafka/test_describe\.py::test_an_old_broker_": f"small {NEWEST}",
        r"kafka/test_\w+\.py::test_combined_nodes_": f"combined {NEWEST}",
        r"kafka/test_security\.py.*\[(\d.*)\]": r"secured \1",
        r"kafka/test_bad_input\.py::test_a_missing_client_certificate_": f"secured {NEWEST}-SSL",
        r"kafka/test_bad_input\.py::test_(?:a_login|a_sasl_mechanism|a_plaintext|a_tls|connecting_to_a_node_whose)_": (
            f"secured {NEWEST}-SCRAM-SHA-256"
        ),
        # A cluster for each release, or for each case.
        rf"kafka/test_(fresh_logs)\.py.*{RELEASE}": r"\1 \2",
        r"kafka/test_(?:conformance|downgrades)\.py::(.*)": r"\1",
    }.items()
)

FIRST = (
    *("on_node", "test_outages", "test_many", "one_kafka", "test_lost_connections"),
    *("test_followed_logs", "test_apply", "six", "test_a_downgrade_that_is_called_safe", "test_killed", "test_ghost"),
    *("test_plan", "test_security", "test_bad_input", "test_unregister", "test_a_real_cluster"),
)
"""What takes longest begins first, so that no process is left with it at the end."""


def together(nodeid: str) -> str:
    """A name that is the same for two tests that need one process."""
    for pattern, name in TOGETHER:
        if found := pattern.search(nodeid):
            return found.expand(name)
    return nodeid.partition("::")[0].rpartition("/")[2]


def place(nodeid: str) -> int:
    return next((number for number, name in enumerate(FIRST) if together(nodeid).startswith(name)), len(FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shared = {"six", "combined"} & set(getattr(item, "fixturenames", ()))
        assert all(together(item.nodeid).startswith(name) for name in shared), f"{item.nodeid} shares {shared}"
    items.sort(key=lambda item: place(item.nodeid))


class Together(LoadScopeScheduling):  # type: ignore[misc]  # ships no types
    """Each process takes the next tests that belong together, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """Hands out tests as late as can be: pytest wants to know the next test before the last one it has begins."""
        if self._pending_of(self.assigned_work[node]) <= 1 or not self.workqueue:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
