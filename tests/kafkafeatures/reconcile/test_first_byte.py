"""An eviction whose connection takes long to open: all that allows it is checked until its first byte is sent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.reconcile.last_second import FRESH
from tests.kafkafeatures.reconcile.test_last_second import Meanwhile, an_older_resource_owns_the_cluster, rolling
from tests.kafkafeatures.reconcile.test_stateful_sets import lost
from tests.simulated.orders import KEY
from tests.simulated.requests import Request

AT_LAST: dict[str, tuple[Meanwhile, str]] = {
    "two seconds": (lambda rig: rig.pass_time(timedelta(seconds=FRESH + 0.1)), "more than 2 s ago"),
    "the time that any step has": (lambda rig: rig.pass_time(timedelta(seconds=11)), "it took 11 s since its intent"),
    "an older owner": (an_older_resource_owns_the_cluster, "older"),
    "told to end": (lambda rig: rig.controller.hand_over(), "this process is shutting down"),
}


@pytest.mark.parametrize(("happens", "message"), AT_LAST.values(), ids=AT_LAST)
@pytest.mark.parametrize("asked_before", [False, True])
async def test_a_change_during_the_connection_setup_withholds_the_eviction(
    happens: Meanwhile, message: str, asked_before: bool
) -> None:
    rig = rolling()
    if asked_before:
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
    if asked_before:  # the first request may be on its way still
        assert [intent["target"] for intent in rig.api.status["intents"]] == ["broker-0"]
        assert message in rig.api.condition("Ready")["message"]
    else:
        ended = rig.api.status["history"][-1]
        assert (ended["result"], message in ended["message"]) == ("NotSent", True), ended
