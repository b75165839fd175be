"""A partition that falls out of sync between the intent in the status and the eviction: its broker is not evicted."""

from __future__ import annotations

from threading import Event
from typing import Any

from tests.e2e.kubernetes.rolls.rolling import NAME, ROLLOUT, Rolling
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.racks import Racks, pods_of
from tests.e2e.rig.kubernetes.webhook import webhook
from tests.e2e.rig.process import wait_until

BROKERS = pods_of("brokers")


def test_a_broker_is_not_evicted_if_its_partition_falls_out_of_sync_while_the_intent_is_written(
    rolling: Rolling, racks: Racks, observer: Observer, operator: Operator
) -> None:
    """The operator is frozen when the API server has its intent. Then a broker of another rack is killed, and the
    operator continues.
    """
    as_before, held = dict(racks.changed), Event()

    def look(request: dict[str, Any]) -> None:
        if request["object"]["status"].get("intents") and not held.is_set():
            operator.freeze()
            held.set()

    with rolling.judged(()) as judged:
        with webhook(racks.plane, look, user=USER, resources=("kafkafeatures/status",)):
            rolling.rolls("last-second", "brokers", rollout={**ROLLOUT, "maxParallel": 1})
            assert held.wait(60)
            wait_until("the intent is there", lambda: bool(rolling.progress()["intents"]))
            (intent,) = rolling.progress()["intents"]
            racks.kill(BROKERS[(BROKERS.index(intent["target"]) + 1) % len(BROKERS)])
            wait_until("a partition is out of sync", lambda: not observer.in_sync(), step=0.05)
            operator.thaw()
        wait_until("the intent is withdrawn", lambda: not rolling.progress()["intents"], step=0.1)
        history = rolling.status(NAME)["history"]
        rolling.delete(NAME)
        assert (history[-1]["target"], history[-1]["result"]) == (intent["target"], "NotSent"), history
        assert judged.evicted == []
        racks.changed = as_before
        racks.apply_again()
        wait_until("all replicas are in sync", observer.in_sync, step=0.5)
