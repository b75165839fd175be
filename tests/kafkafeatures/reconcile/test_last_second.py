"""Between the intent and the request: every condition of a step is checked again, and a step that is forbidden by then
is not sent.

Production's controller and driver run on the simulated API server, with its pods, and on a simulated cluster.
`Meanwhile`: a change that is made once the API server has stored the intent, before its next request. Broker 1 runs in
pod broker-0.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.readings import Readings, Role
from kafkafeatures.kube.errors import Conflict
from kafkafeatures.reconcile.kubernetes_store import KubernetesStore
from kafkafeatures.reconcile.last_second import FRESH
from tests.kafkafeatures.reconcile.simulated import spec_of
from tests.kafkafeatures.reconcile.test_stateful_sets import OLDER, WORKLOAD, Rig, create_older, lost
from tests.simulated.kubernetes import ApiServer
from tests.simulated.orders import KEY
from tests.simulated.requests import Fault, Request, refusal

Meanwhile = Callable[[Rig], object]
MakeRig = Callable[..., Rig]


def rolling(**spec: Any) -> Rig:
    """Set up a roll in which broker 1 is restarted next."""
    rig = Rig()
    rig.api.edit(**spec)
    return rig


def finalizing(**spec: Any) -> Rig:
    """Set up metadata.version 27 as the next change."""
    rig = Rig()
    rig.api.edit(workload={"driver": "None"}, features={"levels": [{"name": "metadata.version", "level": 27}]}, **spec)
    return rig


def downgrading(**spec: Any) -> Rig:
    """Set up the downgrade of group.version to 0 as the next change, with its consent."""
    rig = Rig()
    met = {"clusterId": rig.kafka.world.cluster_id}
    rig.api.edit_status(lambda status: status.update(met))
    rig.kafka.move("metadata.version", 27)
    rig.kafka.move("group.version", 1)
    features = {"levels": [{"name": "group.version", "level": 0}]}
    rig.api.edit(workload={"driver": "None"}, features=features, consents=["group.version:1->0"], **spec)
    return rig


FOR_EACH_STEP = pytest.mark.parametrize("make_rig", [rolling, finalizing], ids=["restart", "change of a level"])


class ChangeAfterIntent:
    """A hook of the API server that makes a change once an intent was written, or, with `read`, once this path was
    read.
    """

    def __init__(self, rig: Rig, happens: Meanwhile, *, read: str = "") -> None:
        self._rig, self._happens, self.happened = rig, happens, False
        self._written, self._read = False, read
        rig.api.faults = self

    def __call__(self, request: Request) -> Fault | None:
        if self._written and not self.happened:
            self.happened = True
            self._happens(self._rig)
        intends = request.path.endswith("/orders/status") and bool(request.body["status"].get("intents"))
        self._written = request.path.endswith(self._read) if self._read else intends and request.method == "PUT"
        return None


def requests_sent(rig: Rig) -> list[object]:
    """Return all changes and evictions that left the process."""
    return [*rig.workloads.evictions, *rig.kafka.sent]


def annotate(name: str, value: str) -> Meanwhile:
    return lambda rig: rig.api.server.edit(
        *KEY, lambda manifest: manifest["metadata"].setdefault("annotations", {}).update({name: value})
    )


def edit(**spec: Any) -> Meanwhile:
    return lambda rig: rig.api.edit(**spec)


def an_older_resource_owns_the_cluster(rig: Rig) -> None:
    older = create_older(rig, "kafka:9092")
    rig.claims.note({**older, "status": {"clusterId": rig.api.status["clusterId"]}})


def a_person_removes_the_intent(rig: Rig) -> None:
    rig.api.edit_status(lambda status: status.pop("intents"))


WITHDRAWN: dict[str, Meanwhile] = {
    "suspended": edit(suspend=True),
    "paused": annotate(PAUSE, "true"),
    "observes": edit(mode="Observe"),
    "another approval": annotate(APPROVE, "sha256:0123456789ab"),
    "another document": edit(features={"levels": [{"name": "metadata.version", "level": 25}]}),
    "an older owner": an_older_resource_owns_the_cluster,
    "the operator stops": lambda rig: rig.controller.hand_over(),
    "a person removes the intent": a_person_removes_the_intent,
}


@FOR_EACH_STEP
@pytest.mark.parametrize("happens", WITHDRAWN.values(), ids=WITHDRAWN)
async def test_a_step_withdrawn_while_its_intent_is_written_is_not_sent(make_rig: MakeRig, happens: Meanwhile) -> None:
    rig = make_rig()
    meanwhile = ChangeAfterIntent(rig, happens)
    assert await rig.controller.reconcile(KEY) is not None
    assert meanwhile.happened
    assert requests_sent(rig) == []
    assert not rig.api.status.get("intents")


@FOR_EACH_STEP
async def test_a_stopping_operator_begins_no_step(make_rig: MakeRig) -> None:
    rig = make_rig()
    intended: list[object] = []

    def watch(request: Request) -> None:
        if request.method == "PUT" and request.path.endswith("/orders/status"):
            intended.extend(request.body["status"].get("intents") or [])

    rig.api.faults = watch
    rig.controller.hand_over()
    await rig.controller.reconcile(KEY)
    assert (requests_sent(rig), intended) == ([], [])


@FOR_EACH_STEP
async def test_a_step_is_sent_where_only_a_label_of_the_resource_changed_since_its_intent(make_rig: MakeRig) -> None:
    rig = make_rig()
    ChangeAfterIntent(
        rig, lambda rig: rig.api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(labels={"a": "b"}))
    )
    await rig.controller.reconcile(KEY)
    assert len(requests_sent(rig)) == 1


@FOR_EACH_STEP
async def test_an_approval_withdrawn_while_the_intent_is_written_does_not_count(make_rig: MakeRig) -> None:
    rig = make_rig(approval={"policy": "Always"})
    await rig.controller.reconcile(KEY)
    annotate(APPROVE, rig.api.status["plan"]["hash"])(rig)
    meanwhile = ChangeAfterIntent(rig, annotate(APPROVE, ""))
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []
    (entry,) = rig.api.status["history"]
    assert entry["result"] == "NotSent"
    assert "the resource was changed" in entry["message"]
    await rig.work(1)
    rig.pass_time(timedelta(minutes=1))
    await rig.work(1)
    assert rig.api.condition("Ready")["reason"] == "ApprovalRequired", rig.api.condition("Ready")["message"]
    annotate(APPROVE, rig.api.status["plan"]["hash"])(rig)
    await rig.work(1)
    assert len(requests_sent(rig)) == 1


async def test_a_consent_withdrawn_while_the_intent_is_written_is_not_used() -> None:
    rig = downgrading()
    meanwhile = ChangeAfterIntent(rig, edit(consents=[]))
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []
    assert not rig.api.status.get("spentConsents")


@FOR_EACH_STEP
async def test_a_step_is_not_sent_if_the_window_closes_while_its_intent_is_written(make_rig: MakeRig) -> None:
    rig = make_rig()
    began = rig.api.now
    window = {"schedule": f"{began.minute} {began.hour} * * *", "duration": "10m"}
    day_of_kafka = {"schedule": "0 0 15 1 *", "duration": "24h"}  # open by Kafka's clock, which must not count
    rig.api.edit(rollout={"windows": [window, day_of_kafka]})
    meanwhile = ChangeAfterIntent(rig, lambda rig: rig.api.wait(timedelta(minutes=10)))
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []
    assert rig.api.condition("Reconciling")["reason"] == "WaitingForWindow"


@FOR_EACH_STEP
async def test_a_step_is_not_sent_if_its_resource_is_deleted_while_the_intent_is_written(make_rig: MakeRig) -> None:
    rig = make_rig()
    meanwhile = ChangeAfterIntent(rig, lambda rig: rig.api.server.delete(*KEY))
    assert await rig.controller.reconcile(KEY) is None
    assert meanwhile.happened
    assert requests_sent(rig) == []


@FOR_EACH_STEP
async def test_a_step_is_not_sent_if_the_resource_cannot_be_read_again(make_rig: MakeRig) -> None:
    rig = make_rig()
    written = []

    def unreadable(request: Request) -> Fault | None:
        intends = request.path.endswith("/orders/status") and bool(request.body["status"].get("intents"))
        written.extend(["intent"] * intends)
        return Fault(refusal(503, "not now")) if written and request.path.endswith("/orders") else None

    rig.api.faults = unreadable
    await rig.controller.reconcile(KEY)
    assert written
    assert requests_sent(rig) == []
    assert "could not be read again" in rig.api.status["history"][-1]["message"]


# --- restarts ---


def falls_out_of_sync(rig: Rig) -> None:
    rig.kafka.world.fall_behind(2, for_ms=600_000)


def is_reassigned(rig: Rig) -> None:
    rig.kafka.world.fall_behind(2, for_ms=600_000)
    rig.kafka.world.reassign("orders", 0, (1, 3, 2))


def a_controller_is_gone(rig: Rig) -> None:
    for voter in (3001, 3002):
        rig.kafka.world.stop(Role.CONTROLLER, voter, kill=True)


def another_pod_does_not_run(rig: Rig) -> None:
    not_ready = [{"type": "Ready", "status": "False"}]
    rig.workloads.change_pod("broker-2", lambda pod: pod["status"].update(conditions=not_ready))


def the_pods_cannot_be_read(rig: Rig) -> None:
    rig.api.server.forbidden.add("pods")


def the_image_is_reverted(rig: Rig) -> None:
    rig.workloads.set_image("broker", "kafka:4.2.0")
    rig.pass_time(timedelta(seconds=1))


def an_older_resource_names_the_stateful_set(rig: Rig) -> None:
    rig.claims.note(create_older(rig, "other:9092", workload=WORKLOAD))
    rig.claims.reconciled(OLDER)


FORBIDDEN: dict[str, Meanwhile] = {
    "a partition falls out of sync": falls_out_of_sync,
    "a partition is moved": is_reassigned,
    "the quorum is lost": a_controller_is_gone,
    "another pod is not ready": another_pod_does_not_run,
    "the pods cannot be read": the_pods_cannot_be_read,
    "the image is reverted": the_image_is_reverted,
    "an older resource has the StatefulSet": an_older_resource_names_the_stateful_set,
}


@pytest.mark.parametrize("happens", FORBIDDEN.values(), ids=FORBIDDEN)
async def test_a_restart_is_checked_again_right_before_the_eviction(happens: Meanwhile) -> None:
    rig = rolling()
    meanwhile = ChangeAfterIntent(rig, happens)
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []
    assert not rig.api.status.get("intents")
    assert rig.api.status["history"][-1]["result"] == "NotSent"


@pytest.mark.parametrize("happens", [*FORBIDDEN.values(), *WITHDRAWN.values()], ids=[*FORBIDDEN, *WITHDRAWN])
async def test_a_change_right_before_the_request_withholds_also_the_eviction_decided_by_an_earlier_process(
    happens: Meanwhile,
) -> None:
    rig = rolling()
    rig.api.faults = lost
    await rig.work(1)
    assert rig.api.status["intents"]
    meanwhile = ChangeAfterIntent(rig, happens, read="/poddisruptionbudgets")
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []


async def test_a_withdrawn_approval_holds_also_an_eviction_of_unknown_outcome() -> None:
    rig = rolling(approval={"policy": "Always"})
    await rig.controller.reconcile(KEY)
    annotate(APPROVE, rig.api.status["plan"]["hash"])(rig)
    rig.api.faults = lost
    await rig.work(1)
    assert rig.api.status["intents"]
    rig.api.faults = lambda _: None
    annotate(APPROVE, "")(rig)
    await rig.work(1)
    assert requests_sent(rig) == []
    (intent,) = rig.api.status["intents"]
    assert intent["target"] == "broker-0"
    await rig.work()
    assert requests_sent(rig) == []
    assert rig.api.condition("Ready")["reason"] == "ApprovalRequired"


@pytest.mark.parametrize(("seconds", "evicted"), [(FRESH, ["broker-0"]), (FRESH + 0.1, [])], ids=["2 s", "2.1 s"])
async def test_a_restart_is_decided_on_an_observation_of_the_cluster_at_most_two_seconds_old(
    seconds: float, evicted: list[str]
) -> None:
    rig = rolling()
    look_again = rig.kafka.look_again

    async def slowly(**options: Any) -> Readings:
        readings = await look_again(**options)
        rig.api.wait(timedelta(seconds=seconds))
        return readings

    rig.kafka.look_again = slowly  # type: ignore[method-assign]
    await rig.controller.reconcile(KEY)
    assert rig.workloads.evictions == evicted
    assert bool(rig.api.status.get("intents")) == bool(evicted)


async def test_a_restart_is_decided_on_pods_read_at_most_two_seconds_ago() -> None:
    """PodDisruptionBudgets are read after the pods. That takes more than 2 s, in which the image is changed again."""
    rig = rolling()

    def slowly(request: Request) -> Fault | None:
        if request.path.endswith("/poddisruptionbudgets"):
            rig.workloads.set_image("broker", "kafka:3.9.0")
            rig.api.wait(timedelta(seconds=FRESH + 0.1))
        return None

    meanwhile = ChangeAfterIntent(rig, lambda rig: setattr(rig.api, "faults", slowly))
    await rig.controller.reconcile(KEY)
    assert meanwhile.happened
    assert requests_sent(rig) == []


async def test_observations_that_take_too_long_are_repeated_at_growing_intervals_up_to_check_every() -> None:
    """Each attempt writes the status twice: the intent, and its end."""
    rig = rolling(drift={"checkEvery": "10m"})
    look_again = rig.kafka.look_again

    async def slowly(**options: Any) -> Readings:
        readings = await look_again(**options)
        rig.api.wait(timedelta(seconds=FRESH + 0.1))
        return readings

    rig.kafka.look_again = slowly  # type: ignore[method-assign]
    end, writes, pause = rig.api.now + timedelta(hours=1), rig.api.writes, 0.0
    while rig.api.now < end:
        pause = await rig.controller.reconcile(KEY) or 0.0
        rig.pass_time(timedelta(seconds=pause))
    assert requests_sent(rig) == []
    assert pause == 600
    assert rig.api.writes - writes <= 35
    assert "read more than 2 s ago" in rig.api.condition("Ready")["message"]
    rig.kafka.look_again = look_again  # type: ignore[method-assign]
    await rig.controller.reconcile(KEY)
    assert len(requests_sent(rig)) == 1


async def test_a_cluster_that_cannot_be_read_again_is_not_rolled() -> None:
    rig = rolling()

    def goes_away(rig: Rig) -> None:
        rig.kafka.away = True

    ChangeAfterIntent(rig, goes_away)
    await rig.controller.reconcile(KEY)
    assert requests_sent(rig) == []
    assert not rig.api.status.get("intents")


async def test_a_status_that_another_client_wrote_meanwhile_is_not_overwritten() -> None:
    """The other client may be a newer release with an intent of its own: the decision has to be made again."""
    server = ApiServer()
    server.create(*KEY, spec_of(DesiredState({"metadata.version": 25})))
    store = KubernetesStore(server.client(), KEY, lambda: OperatorIdentity("", "operator", "test"))
    await store.fetch()
    await store.write_status(Status(cluster_id="cluster", change_count=1))
    assert (await store.read_again()).status.change_count == 1
    theirs = {"kind": "MoveVoters", "at": "2027-01-15T08:00:00Z"}
    server.edit_status(*KEY, lambda manifest: manifest["status"].update(intents=[theirs]))
    with pytest.raises(Conflict):
        await store.read_again()
