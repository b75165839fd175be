"""An eviction whose connection takes long to open: its conditions are checked until its first byte is sent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.reconcile.last_second import FRESH
from tests.kafkafeatures.reconcile.test_last_second import Meanwhile, an_older_resource_owns_the_cluster, rolling
from tests.kafkafeatures.reconcile.test_stateful_sets import lost
from tests.simulated.orders import KEY
from tests.simulated.requests import Request

DURING_CONNECTION: dict[str, tuple[Meanwhile, str]] = {
    "readings become older than 2 s": (lambda rig: rig.pass_time(timedelta(seconds=FRESH + 0.1)), "more than 2 s ago"),
    "the intent becomes older than 10 s": (
        lambda rig: rig.pass_time(timedelta(seconds=11)),
        "it took 11 s since its intent",
    ),
    "an older owner": (an_older_resource_owns_the_cluster, "older"),
    "the operator stops": (lambda rig: rig.controller.hand_over(), "this process is shutting down"),
}


@pytest.mark.parametrize(("happens", "message"), DURING_CONNECTION.values(), ids=DURING_CONNECTION)
@pytest.mark.parametrize("is_repeated", [False, True], ids=["first request", "after a lost request"])
async def test_a_change_during_the_connection_setup_withholds_the_eviction(
    happens: Meanwhile, message: str, is_repeated: bool
) -> None:
    rig = rolling()
    if is_repeated:
        rig.api.faults = lost
        await rig.work(1)
    made = []

    def connecting(request: Request) -> None:
        if request.path.endswith("/eviction"):
            made.append(request)
            happens(rig)

    rig.api.faults = connecting
    await rig.controller.reconcile(KEY)
    assert made
    assert rig.workloads.evictions == []
    if is_repeated:  # the first request may be on its way still
        assert [intent["target"] for intent in rig.api.status["intents"]] == ["broker-0"]
        assert message in rig.api.condition("Ready")["message"]
    else:
        ended = rig.api.status["history"][-1]
        assert (ended["result"], message in ended["message"]) == ("NotSent", True), ended
