"""A restart that was asked of Strimzi is withdrawn once nobody wants it any more, and the status says so.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.api.records import stamp
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.reconcile.withdrawals import WITHDRAW_AFTER
from tests.kafkafeatures.reconcile.strimzi_rig import RESTART, Strimzi
from tests.kafkafeatures.reconcile.test_strimzi import KAFKA
from tests.simulated import schema
from tests.simulated.orders import KEY
from tests.simulated.requests import Fault, Request, refusal

ASKED, WITHDRAWN = (f"PATCH broker-1 {{{RESTART!r}: {value}}}" for value in ("'true'", "None"))


async def asked() -> Strimzi:
    """A cluster whose Strimzi was asked to restart broker-1, and has not begun."""
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.request("broker-1")
    await strimzi.work(2)
    assert strimzi.requests == [ASKED]
    return strimzi


def refused_once(strimzi: Strimzi) -> None:
    """The API server does not answer the next change of a pod."""
    refused(strimzi, 1)


def refused(strimzi: Strimzi, times: int, code: int = 500) -> None:
    """The API server does not carry out the next changes of pods."""
    heard, answers = strimzi.api.faults, [Fault(refusal(code, "etcd is away"))] * times

    def faults(request: Request) -> Fault | None:
        fault = heard(request)
        return answers.pop() if answers and request.writes and "/pods/" in request.path else fault

    strimzi.api.faults = faults


def by_a_person(strimzi: Strimzi, pod: str) -> None:
    """A person, or the Drain Cleaner, sets Strimzi's annotation where the pod has none."""
    theirs = {"manager": "kubectl-annotate", "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{RESTART}": {}}}}}
    strimzi.annotation(pod, RESTART, "true")
    strimzi.workloads.change_pod(pod, lambda raw: raw["metadata"].update(managedFields=[theirs]))


async def test_a_withdrawn_request_is_named_at_once_and_until_strimzi_can_no_longer_carry_it_out() -> None:
    strimzi = await asked()
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(1)
    assert strimzi.reason[1].startswith("the request to restart pod broker-1 (broker 2) is being withdrawn; ")
    for _ in range(9):
        await strimzi.work(1)
        reason, message = strimzi.reason
        assert (reason, message.partition(";")[0]) == (
            "WaitingForStrimzi", "the request to restart pod broker-1 (broker 2) is withdrawn"
        )  # fmt: skip
        assert "Strimzi may still carry it out within 10 min if it has begun" in message
    assert strimzi.requests == [ASKED, WITHDRAWN]
    await strimzi.work(2)
    assert strimzi.reason[0] == "InSync"


async def test_a_withdrawal_without_the_right_to_it_stalls_with_a_text_on_the_withdrawal() -> None:
    strimzi = await asked()
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    refused(strimzi, 1, code=403)
    await strimzi.work(1)
    stalled = strimzi.api.condition("Stalled")
    assert stalled["reason"] == "NotAuthorized"
    assert stalled["message"].startswith("the request to restart pod broker-1 could not be withdrawn: ")


async def test_the_remedy_of_a_request_names_the_command_that_withdraws_it_with_its_namespace() -> None:
    strimzi = await asked()
    await strimzi.work(4)  # a wait has its remedy after two minutes
    assert strimzi.reason[1].endswith(f"kubectl annotate -n kafka pod broker-1 {RESTART_POD_UID}-")


@pytest.mark.parametrize("held", [{"mode": "Observe"}, {"suspend": True}], ids=["mode Observe", "suspended"])
async def test_a_document_that_sends_nothing_says_what_its_request_still_waits_for(held: dict[str, Any]) -> None:
    strimzi = await asked()
    strimzi.api.edit(**held)
    await strimzi.work(1)
    waits = "Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet"
    assert (strimzi.reason[0], strimzi.reason[1].partition(";")[0]) == ("WaitingForStrimzi", waits)
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(2)
    assert strimzi.reason[1].startswith("the request to restart pod broker-1 (broker 2) is withdrawn; ")
    assert strimzi.requests == [ASKED, WITHDRAWN]


async def test_a_withdrawn_request_ends_after_ten_minutes_also_if_no_operator_ran_meanwhile() -> None:
    strimzi = await asked()
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(2)

    def an_hour_ago(status: dict[str, Any]) -> None:
        for intent in status["intents"]:
            for name in {"at", "unwantedSince"} & intent.keys():
                intent[name] = stamp(datetime.fromisoformat(intent[name]) - timedelta(hours=1))

    strimzi.api.edit_status(an_hour_ago)
    await strimzi.work(1)
    assert not strimzi.api.status.get("intents")
    assert strimzi.api.status["history"][-1]["result"] == "NotApplied"


async def test_a_document_that_no_longer_names_the_driver_withdraws_its_request_once_it_is_answered() -> None:
    strimzi = await asked()
    strimzi.api.edit(workload={"driver": "None"})
    refused_once(strimzi)
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN, WITHDRAWN]  # the first one was not answered
    assert "the request to restart pod broker-1 (broker 2) is withdrawn" in strimzi.reason[1]
    await strimzi.work(12)
    assert not strimzi.api.status.get("intents")
    assert strimzi.reason[0] == "InSync"
    assert len(strimzi.requests) == 3


async def test_a_pod_that_strimzi_has_restarted_gets_no_second_request_once_the_driver_is_none() -> None:
    strimzi = await asked()
    strimzi.restart("broker-1")
    strimzi.api.edit(workload={"driver": "None"})
    await strimzi.work(4)
    assert strimzi.requests == [ASKED]
    assert strimzi.api.status["history"][-1]["result"] == "Applied"


UNJUDGED: dict[str, Callable[[Strimzi], object]] = {
    "the document is invalid": lambda strimzi: strimzi.api.edit(rollout={"maxParallel": 2}),
    "the Secret is gone": lambda strimzi: strimzi.api.server.remove(strimzi.path("kafka-features")),
    "no node answers": lambda strimzi: nodes_stop(strimzi, *Role),
    "no broker answers": lambda strimzi: nodes_stop(strimzi, Role.BROKER),
    "the Kafka is gone": lambda strimzi: strimzi.api.server.remove(KAFKA),
    "the Kafka is being deleted": lambda strimzi: strimzi.kafka_is(is_deleted=True),
    "the sets may not be read": lambda strimzi: strimzi.api.server.forbidden.add("strimzipodsets"),
    "sets of two clusters have one label": lambda strimzi: strimzi.pod_set("other", owner="uid-of-another"),
    "another cluster answers": lambda strimzi: strimzi.api.edit_status(lambda status: status.update(clusterId="other")),
}


def nodes_stop(strimzi: Strimzi, *roles: Role) -> None:
    world = strimzi.kafka.world
    for role, id_ in [*world.nodes]:
        if role is Role.BROKER:
            world.vanish(id_)
        elif role in roles:
            world.stop(role, id_)


@pytest.mark.parametrize("is_wanted", [True, False], ids=["wanted", "not wanted"])
@pytest.mark.parametrize("change", UNJUDGED.values(), ids=UNJUDGED)
async def test_a_request_is_withdrawn_once_while_nothing_can_be_judged(
    change: Callable[[Strimzi], object], is_wanted: bool
) -> None:
    strimzi = await asked()
    change(strimzi)
    if not is_wanted:
        strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN]
    (intent,) = strimzi.api.status["intents"]
    assert "unwantedSince" in intent


async def test_a_withdrawn_request_whose_pod_cannot_be_read_has_no_outcome_and_is_made_again_once_it_can() -> None:
    strimzi = await asked()
    strimzi.api.server.forbidden.add("strimzipodsets")
    await strimzi.work(30)
    assert strimzi.requests == [ASKED, WITHDRAWN]
    assert len(strimzi.api.status["intents"]) == 1
    strimzi.api.server.forbidden.clear()
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN, ASKED]
    strimzi.restart("broker-1")
    await strimzi.work(4)
    assert strimzi.reason[0] == "InSync"


async def test_strimzi_that_is_away_for_an_hour_is_asked_once_and_named_with_the_time_since_when() -> None:
    strimzi = await asked()
    strimzi.api.edit(features={"levels": [{"name": "transaction.version", "level": 1}]})
    await strimzi.work(60)
    assert strimzi.requests == [ASKED]
    reason, message = strimzi.reason
    assert reason == "WaitingForStrimzi"
    assert message.startswith("Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet; since ")
    assert "see the log of Strimzi" in message
    assert [entry for entry in strimzi.api.status["history"] if entry["target"] == "transaction.version"] == []


async def test_a_request_is_withdrawn_while_an_older_crd_keeps_no_whole_status_and_made_again_afterwards() -> None:
    strimzi = await asked()
    strimzi.api.server.schema = schema.without("status.plan")
    strimzi.api.edit(features={"levels": [{"name": "transaction.version", "level": 1}]})
    await strimzi.work(3)
    assert strimzi.api.condition("Stalled")["reason"] == "SchemaOutdated"
    assert strimzi.requests == [ASKED, WITHDRAWN]
    strimzi.api.server.schema = schema.current()
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN, ASKED]


@pytest.mark.parametrize("stuck", [(2,), (1, 2, 3)], ids=["one broker", "all brokers"])
async def test_a_pod_that_cannot_run_is_asked_for_once_and_the_request_stays_on_it(stuck: tuple[int, ...]) -> None:
    strimzi = Strimzi()
    await strimzi.work()
    for id_ in stuck:
        strimzi.kafka.world.vanish(id_)
        strimzi.workloads.change_pod(f"broker-{id_ - 1}", _has_no_image)
    strimzi.request("broker-1")
    await strimzi.work(4)
    assert strimzi.requests == [ASKED]
    assert strimzi.reason[1].startswith("Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet")


def _has_no_image(pod: dict[str, Any]) -> None:
    container = {"name": "kafka", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pod["status"].update(containerStatuses=[container], conditions=[{"type": "Ready", "status": "False"}])


async def test_a_request_that_was_withdrawn_with_an_invalid_document_is_made_again_by_a_valid_one() -> None:
    strimzi = await asked()
    strimzi.api.edit(rollout={"maxParallel": 2})
    refused_once(strimzi)
    await strimzi.work(2)
    strimzi.api.edit(rollout={})
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN, WITHDRAWN, ASKED]  # the first withdrawal was not answered
    assert strimzi.reason[1].startswith("Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet")


@pytest.mark.parametrize("is_answered", [True, False], ids=["withdrawn", "answered the second time"])
async def test_the_request_of_a_deleted_document_is_withdrawn_and_the_next_one_need_not_wait(is_answered: bool) -> None:
    strimzi = await asked()
    if not is_answered:
        refused_once(strimzi)
    await made_again(strimzi)
    assert strimzi.requests == [ASKED, *[WITHDRAWN] * (1 if is_answered else 2)]
    await strimzi.work(1)
    assert WAITS not in strimzi.reason[1], strimzi.reason


async def test_a_request_of_a_deleted_document_that_cannot_be_withdrawn_is_logged_and_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strimzi = await asked()
    await strimzi.work(20)  # longer than any request of it can be under way
    refused(strimzi, 99)
    await made_again(strimzi)
    assert strimzi.requests == [ASKED, *[WITHDRAWN] * len(WITHDRAW_AFTER)]
    assert "the request to restart pod broker-1 could not be withdrawn: " in caplog.text
    await strimzi.work(9)
    assert WAITS in strimzi.reason[1]
    await strimzi.work(2)
    assert WAITS not in strimzi.reason[1]


async def test_a_restart_that_has_begun_is_not_withdrawn_with_its_document() -> None:
    strimzi = await asked()
    strimzi.restart("broker-1")
    await strimzi.work(1)
    await made_again(strimzi)
    assert strimzi.requests == [ASKED]
    await strimzi.work(1)
    assert WAITS in strimzi.reason[1]


WAITS = "kafka/orders has changed this cluster; nothing is sent until the outcome is known"


async def made_again(strimzi: Strimzi) -> None:
    """The document is deleted, and created with another level and without a driver."""
    document = strimzi.api.object
    strimzi.api.server.delete(*KEY)
    assert await strimzi.controller.reconcile(KEY) is None
    next_level = {"levels": [{"name": "transaction.version", "level": 1}]}
    strimzi.api.create(**{**document["spec"], "features": next_level, "workload": {"driver": "None"}})
    strimzi.controller.note_changes([strimzi.api.object])


async def test_the_annotation_of_a_person_after_a_withdrawal_stays_and_is_not_taken_for_ours() -> None:
    strimzi = await asked()
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(2)
    by_a_person(strimzi, "broker-1")
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN]
    assert "the request to restart pod broker-1 (broker 2) is withdrawn" in strimzi.reason[1]
    await strimzi.work(12)
    assert not strimzi.api.status.get("intents")
    assert strimzi.reason[1].startswith("Strimzi was asked to restart pod broker-1, and has not done so yet")


@pytest.mark.parametrize("change", UNJUDGED.values(), ids=UNJUDGED)
async def test_a_request_that_a_person_has_made_anew_stays_while_nothing_can_be_judged_and_after_a_deletion(
    change: Callable[[Strimzi], object],
) -> None:
    strimzi = await asked()
    by_a_person(strimzi, "broker-1")
    change(strimzi)
    await strimzi.work(3)
    strimzi.api.server.delete(*KEY)
    await strimzi.controller.reconcile(KEY)
    assert strimzi.requests == [ASKED]


async def test_a_pod_that_was_changed_right_before_a_withdrawal_is_read_again() -> None:
    strimzi = await asked()
    heard, people = strimzi.api.faults, [by_a_person]

    def faults(request: Request) -> Fault | None:
        if people and request.writes and "/pods/" in request.path:
            people.pop()(strimzi, "broker-1")
        return heard(request)

    strimzi.api.faults = faults
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(3)
    assert strimzi.requests == [ASKED, WITHDRAWN]
    assert strimzi.annotations("broker-1")[RESTART] == "true"


@pytest.mark.parametrize(("manager", "reads"), [("theirs", 3), ("ours", 1)], ids=["beside us", "replaced by force"])
async def test_a_request_is_withdrawn_while_a_second_operator_writes_the_status_but_not_at_a_hand_over(
    manager: str, reads: int
) -> None:
    strimzi = await asked()
    name = {"namespace": manager, "name": "operator", "instance": "b"}
    strimzi.api.server.edit_status(
        *KEY, lambda raw: raw["status"].update(operator=name), manager=f"kafkafeatures.dev/{manager}/operator"
    )
    await strimzi.work(reads)
    assert strimzi.requests == ([ASKED, WITHDRAWN] if manager == "theirs" else [ASKED])
