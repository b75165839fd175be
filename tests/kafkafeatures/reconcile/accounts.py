"""A resource whose plan waits for a resumption or an approval, with changes of its document and of readings: helpers of
the tests about level changes by other clients.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Held, Stalled
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.readings import Failure, FailureKind, Readings
from kafkafeatures.reconcile.act import Reconciliation
from kafkasim.connection import Access
from kraftlog import Image
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, run

UP, DOWN = {"group.version": 1}, {"group.version": 0}
CONSENT = "group.version:1->0"
CONSENTS = frozenset({CONSENT})


def waiting(levels: dict[str, int], begin: dict[str, int], **fields: object) -> tuple[Cluster, Store]:
    """Set up a suspended resource that asks for `levels`, and a cluster at the levels `begin`."""
    cluster = Cluster({"metadata.version": 27, **begin})
    store = Store(cluster, {})
    store.wanted = replace(DesiredState(levels, suspend=True), **fields)  # type: ignore[arg-type]
    assert isinstance(run(cluster, store).decision, Held)
    assert "plan" in store.status
    return cluster, store


def resumes(store: Store, **fields: object) -> None:
    """Let the resource continue, with these fields of the desired state changed."""
    store.wanted = replace(store.wanted, suspend=False, **fields)  # type: ignore[arg-type]


def approve(store: Store) -> str:
    """Approve the plan in the status; return its hash."""
    approval: str = store.status["plan"]["hash"]
    store.wanted = replace(store.wanted, approvals=frozenset({approval}))
    return approval


def stalled(last: Reconciliation) -> Reason:
    """The reason of the halt."""
    assert isinstance(last.decision, Stalled), last.decision
    return last.decision.reason


def held_reason(last: Reconciliation) -> Reason:
    """The reason why the plan waits for an approval."""
    assert isinstance(last.decision, Held), last.decision
    assert last.decision.condition is not None, last.decision
    assert last.decision.condition[0] is Condition.APPROVAL_REQUIRED
    return last.decision.condition[1]


def without_quorum(readings: Readings) -> Readings:
    """Replace the answer to DescribeQuorum by a failure."""
    unknown = Failure(FailureKind.TIMED_OUT, "DescribeQuorum", "no answer")
    return readings._replace(probe=replace(readings.probe, quorum=unknown))


def of_log(readings: Readings, change: Callable[[Image], Image]) -> Readings:
    assert not isinstance(readings.log, Failure)
    return readings._replace(log=replace(readings.log, image=change(readings.log.image)))


def restart_at_snapshot(cluster: Cluster) -> None:
    """Start a new process whose log begins with a snapshot of just now."""
    cluster.world.take_snapshot()
    cluster.reach(Access())
