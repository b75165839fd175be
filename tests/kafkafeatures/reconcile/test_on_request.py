"""A reconciliation that an annotation requests: made at once, and acknowledged in the status."""

from __future__ import annotations

from kafkafeatures.api.names import RECONCILE
from kafkafeatures.reconcile.pauses import CHECK_EVERY
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.simulated.orders import KEY, Orders

FIRST, SECOND = "2026-01-02T03:04:05.000001+00:00", "2026-01-02T03:04:06.000001+00:00"


def request(rig: Rig, value: str) -> None:
    rig.api.server.edit(
        *KEY, lambda manifest: manifest["metadata"].setdefault("annotations", {}).update({RECONCILE: value})
    )
    rig.watched = rig.api.object["metadata"]["resourceVersion"]


async def settled() -> Rig:
    """Return a resource that is in sync and watched."""
    rig = Rig(Orders(), Kafka({"metadata.version": 27}))
    rig.kafka.same = True
    await rig.work()
    rig.watched = rig.api.object["metadata"]["resourceVersion"]
    return rig


async def test_a_requested_reconciliation_reads_the_cluster_and_the_status_names_the_request() -> None:
    rig = await settled()
    assert "lastHandledReconcileAt" not in rig.api.status
    for looks, value in ((2, FIRST), (3, SECOND)):
        request(rig, value)
        assert await rig.work() == CHECK_EVERY
        assert (rig.kafka.looks, rig.api.status["lastHandledReconcileAt"]) == (looks, value)


async def test_an_answered_request_causes_no_further_write() -> None:
    rig = await settled()
    request(rig, FIRST)
    await rig.work()
    rig.watched = rig.api.object["metadata"]["resourceVersion"]
    writes = rig.api.writes
    for _ in range(4):
        assert await rig.work() == CHECK_EVERY
    assert rig.api.writes == writes
    assert rig.api.status["lastHandledReconcileAt"] == FIRST


async def test_a_requested_reconciliation_is_answered_also_while_the_cluster_is_unreachable() -> None:
    rig = await settled()
    rig.kafka.away = True
    request(rig, FIRST)
    await rig.work()
    assert rig.api.condition("Ready")["status"] == "Unknown"
    assert rig.api.status["lastHandledReconcileAt"] == FIRST


async def test_a_request_during_a_reconciliation_is_answered_by_the_next_one() -> None:
    rig = await settled()
    request(rig, FIRST)
    rig.kafka.during_look = lambda: request(rig, SECOND) if rig.kafka.looks == 2 else None
    await rig.work()
    assert rig.api.status.get("lastHandledReconcileAt") != SECOND
    await rig.work()
    assert (rig.kafka.looks, rig.api.status["lastHandledReconcileAt"]) == (3, SECOND)
