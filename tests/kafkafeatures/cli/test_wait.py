"""`wait`: each reading of a resource ends it or does not, and has an exit code, a remedy and a line of progress."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any, cast

import pytest

from kafkafeatures.api.status import EMPTY
from kafkafeatures.cli.kube import polling, wait
from kafkafeatures.cli.kube.api import Away, Denied, Kube
from kafkafeatures.cli.kube.polling import Ending
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait import Goal, _goal, _until, judge, progress
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.roll import roll_of
from kafkafeatures.kube.workloads.stateful_sets import templates
from kafkafeatures.kube.workloads.templates import Template
from tests.kafkafeatures import statuses
from tests.kafkafeatures.core.fleets import NEW
from tests.kafkafeatures.core.rolls import BROKERS, CONTROLLERS, ROLLOUT, cluster, current, replication_of
from tests.kafkafeatures.deciding import decide, propose, status_of
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

READY, REACHED, NOT_REACHED = Goal(), Goal("metadata.version", 21), Goal("metadata.version", 27)
"""Goals. Every status of `statuses` with levels has metadata.version at 21."""


def approved(**more: Any) -> KubeResource:
    """A resource whose plan was approved after its last reconciliation."""
    status = statuses.waiting_for_approval()
    return resource(status, annotations={"kafkafeatures.dev/approve": status["plan"]["hash"], **more})


@pytest.mark.parametrize(
    ("found", "goal", "code"),
    [
        (resource(), READY, None),
        (resource(), REACHED, None),
        (resource(statuses.in_sync()), READY, Exit.DONE),
        (resource(statuses.in_sync(1), generation=2), READY, None),
        (resource(statuses.observed()), READY, Exit.DONE),
        (resource(statuses.acting()), READY, None),
        (resource(statuses.suspended()), READY, None),
        (resource(statuses.stalled()), READY, Exit.STALLED),
        (resource(statuses.stalled(1), generation=2), READY, None),
        (resource(statuses.waiting_for_approval()), READY, Exit.APPROVAL),
        (resource(statuses.waiting_for_approval(1), generation=2), READY, None),
        (approved(), READY, None),
        (resource(statuses.unreachable(statuses.in_sync())), READY, None),
        (resource(statuses.in_sync()), REACHED, Exit.DONE),
        (resource(statuses.in_sync(1), generation=2), REACHED, Exit.DONE),
        (resource(statuses.stalled()), REACHED, Exit.DONE),
        (resource(statuses.waiting_for_approval()), REACHED, Exit.DONE),
        (resource(statuses.in_sync()), NOT_REACHED, None),
        (resource(statuses.stalled()), NOT_REACHED, Exit.STALLED),
        (resource(statuses.waiting_for_approval()), NOT_REACHED, Exit.APPROVAL),
        (approved(), NOT_REACHED, None),
        (resource(statuses.unreachable(statuses.in_sync())), REACHED, None),
        (resource(statuses.in_sync()), Goal("no.such", 1), None),
    ],
    ids=[
        "ready: no status yet", "a level: no status yet",
        "ready: in sync", "ready: in sync with an older generation",
        "ready: observed", "ready: acting", "ready: suspended",
        "ready: stalled", "ready: stalled with an older generation",
        "ready: waiting for approval", "ready: waiting for approval of an older generation", "ready: just approved",
        "ready: unreachable",
        "a reached level: in sync", "a reached level: in sync with an older generation",
        "a reached level: stalled", "a reached level: waiting for approval",
        "a higher level: in sync", "a higher level: stalled", "a higher level: waiting for approval",
        "a higher level: just approved",
        "a reached level: unreachable, so what the status says of it may be old",
        "a feature that no status has",
    ],
)  # fmt: skip
def test_the_status_and_the_goal_decide_whether_waiting_ends(
    found: KubeResource, goal: Goal, code: Exit | None
) -> None:
    ending = judge(found, goal)
    assert (ending.code if ending else None) == code


def test_a_wait_that_ends_early_reports_a_remedy() -> None:
    stalled = judge(resource(statuses.stalled()), READY)
    approval = judge(resource(statuses.waiting_for_approval()), READY)
    assert stalled is not None
    assert "start a controller with id 3003 on the new Kafka once" in stalled.text
    assert approval is not None
    assert "kafkafeatures approve orders -n kafka --plan sha256:" in approval.text


def test_the_remedy_for_a_stalled_resource_comes_from_the_blocker_named_by_its_condition() -> None:
    status = statuses.stalled()
    other = {**status["blockers"][0], "message": "broker 7 is old", "remedy": "upgrade Kafka on broker 7"}
    named, unnamed = (
        judge(resource({**status, "blockers": blockers}), READY) for blockers in ([other, *status["blockers"]], [other])
    )
    assert named is not None
    assert "; start a controller with id 3003 on the new Kafka once" in named.text
    assert unnamed is not None
    assert unnamed.text.endswith("; see kafkafeatures status orders -n kafka; see docs/runbooks/GhostRegistration.md")
    assert "broker 7" not in named.text + unnamed.text


def test_a_remedy_that_the_message_contains_is_not_repeated() -> None:
    remedy = "repair the node, or revert the image"
    message = f"no other node is restarted: broker 2 is not back after 10m; {remedy}"
    status = statuses.stalled()
    stalled = {**next(one for one in status["conditions"] if one["type"] == "Stalled"), "message": message}
    blockers = [{"kind": "Workload", "message": message.removesuffix(f"; {remedy}"), "remedy": remedy}]
    ending = judge(resource({**status, "conditions": [stalled], "blockers": blockers}), READY)
    assert ending is not None
    assert ending.text.count(remedy) == 1


@pytest.mark.parametrize(
    ("found", "goal", "line"),
    [
        (resource(), READY, "not reconciled yet"),
        (resource(statuses.in_sync(1), generation=2), READY, "generation 2 is not reconciled yet"),
        (resource(statuses.acting()), READY, "UpdatingFeatures: metadata.version 21 -> 27"),
        (resource(statuses.acting()), Goal("group.version", 1), "group.version is at 0; UpdatingFeatures: "),
        (resource(statuses.in_sync()), NOT_REACHED, "metadata.version is at 21 (3.9-IV0), and the document does not"),
        (resource(), REACHED, "metadata.version is at an unknown level"),
    ],
)  # fmt: skip
def test_a_wait_prints_its_progress(found: KubeResource, goal: Goal, line: str) -> None:
    assert progress(found, goal).startswith(line)


# --- rolled ---

ROLLED = Goal(rolled=True)
SPEC = {
    "cluster": {"bootstrapServers": "h:1"},
    "workload": {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"], "controllers": ["controller"]}},
}
ALL_NODES = (*CONTROLLERS, *BROKERS)


def of_status(seen: Observation) -> dict[str, Any]:
    """The status after a reconciliation of a resource that needs restarts and no change of a level."""

    def no_time(_: str) -> timedelta:
        return timedelta(0)

    desired = DesiredState({"metadata.version": 21}, rollout=ROLLOUT)
    context = RollContext((), EMPTY, NOW, no_time, no_time)
    proposal, roll = propose(desired, seen, Memory()), roll_of(desired, seen, (), context, replication_of(seen))
    decision = decide(desired, seen, roll=roll)
    status = status_of(decision, seen, proposal, generation=1, previous=EMPTY, version="0.1.0", now=NOW, roll=roll)
    return status.as_json()


ALL_CURRENT = of_status(cluster(current(*ALL_NODES)))
ONE_LEFT = of_status(cluster(current(*ALL_NODES[:-1])))
HALTED = of_status(cluster(current(*ALL_NODES[:-1]), update_strategy="RollingUpdate"))
"""One pod is left, and the roll halts: with RollingUpdate the StatefulSet controller restarts pods by itself."""
TEMPLATES = {"controller": Template(NEW, 3), "broker": Template(NEW, 6)}
"""The templates in the API server: revision and number of pods by StatefulSet."""


def rolled(status: dict[str, Any], generation: int = 1, **spec: Any) -> KubeResource:
    """A resource with a workload driver and this status."""
    return resource(status, generation=generation, spec={**SPEC, **spec})


@pytest.mark.parametrize(
    ("found", "templates", "code", "line"),
    [
        (rolled(ALL_CURRENT), TEMPLATES, Exit.DONE, ""),
        (rolled(ONE_LEFT), TEMPLATES, None, f"5 of 6 pods of broker at revision {NEW}"),
        (rolled(ALL_CURRENT), {**TEMPLATES, "broker": Template("newer", 6)}, None,
         "the operator has not seen revision newer of StatefulSet broker yet"),
        (rolled(ALL_CURRENT), {**TEMPLATES, "broker": Template("", 6)}, None,
         "Kubernetes has not processed the change of StatefulSet broker yet"),
        (rolled(ALL_CURRENT), {**TEMPLATES, "broker": Template(NEW, 7)}, None,
         f"the operator has not seen revision {NEW} of StatefulSet broker yet"),
        (rolled(ALL_CURRENT), {**TEMPLATES, "broker": None}, None, "StatefulSet kafka/broker not found"),
        (rolled(ALL_CURRENT, generation=2), TEMPLATES, None, "generation 2 is not reconciled yet"),
        (rolled({}), TEMPLATES, None, f"the operator has not seen revision {NEW} of StatefulSet controller yet"),
        (rolled(HALTED), TEMPLATES, Exit.STALLED, f"5 of 6 pods of broker at revision {NEW}"),
        (rolled(HALTED), {**TEMPLATES, "broker": Template("newer", 6)}, None,
         "the operator has not seen revision newer of StatefulSet broker yet"),
    ],
    ids=[
        "all pods are current: done", "one pod is left", "current at an older revision",
        "the new template has no revision yet", "a pod was added since", "the StatefulSet is missing",
        "current for an older generation", "no status yet", "halted: stalled", "halted at an older revision",
    ],
)  # fmt: skip
def test_a_wait_for_a_roll_ends_only_by_a_status_of_the_current_templates(
    found: KubeResource, templates: dict[str, Template | None], code: Exit | None, line: str
) -> None:
    ending = judge(found, ROLLED, templates)
    assert (ending.code if ending else None) == code
    assert progress(found, ROLLED, templates) == line


def test_a_finished_roll_is_reported_with_the_revision_of_the_pods() -> None:
    ending = judge(rolled(ALL_CURRENT), ROLLED, TEMPLATES)
    assert ending is not None
    assert ending.text == (
        f"kafka/orders is rolled: 3 pods of controller at revision {NEW}, 6 pods of broker at revision {NEW}"
    )


def test_a_stalled_resource_ends_waiting_only_after_the_operator_could_read_the_new_templates() -> None:
    """The halt may be of the old template. `SEEN_WITHIN`: seconds in which an operator that runs reads the new one."""
    newer = {**TEMPLATES, "broker": Template("newer", 6)}
    assert judge(rolled(HALTED), ROLLED, newer, waited=wait.SEEN_WITHIN - 1) is None
    ending = judge(rolled(HALTED), ROLLED, newer, waited=wait.SEEN_WITHIN)
    assert ending is not None
    assert ending.code is Exit.STALLED


def test_a_plan_that_waits_for_approval_ends_a_wait_early() -> None:
    waiting = {**statuses.waiting_for_approval(), "workloads": ONE_LEFT["workloads"]}
    ending = judge(rolled(waiting), ROLLED, TEMPLATES)
    assert ending is not None
    assert ending.code is Exit.APPROVAL


def test_waiting_for_a_roll_needs_a_driver_and_with_manual_restarts_the_condition_decides() -> None:
    ending = judge(resource(statuses.in_sync()), ROLLED, {})
    assert ending is not None
    assert (ending.code, ending.text) == (
        Exit.BLOCKED, "kafka/orders: it has no workload driver, so no node is restarted; set spec.workload.driver"
    )  # fmt: skip
    by_hand = {"driver": "Manual"}
    done = judge(rolled(ALL_CURRENT, workload=by_hand), ROLLED, {})
    assert done is not None
    assert done.text == "kafka/orders is rolled: no node needs a restart"
    assert judge(rolled(ONE_LEFT, workload=by_hand), ROLLED, {}) is None


def test_a_template_has_a_revision_once_kubernetes_has_observed_its_generation() -> None:
    raw: dict[str, Any] = {"metadata": {"generation": 3}, "spec": {"replicas": 6}}

    class Objects:
        answered_at = NOW

        def object_of(self, plural: tuple[str, str], version: str, name: str) -> dict[str, Any]:
            return raw

        def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> list[dict[str, Any]]:
            return []

    spec = {"workload": {"statefulSet": {"brokers": ["broker"]}}}
    assert templates(Objects(), STATEFUL_SET, spec) == {"broker": Template("", 6)}
    raw["status"] = {"observedGeneration": 2, "updateRevision": "r"}
    assert templates(Objects(), STATEFUL_SET, spec) == {"broker": Template("", 6)}
    raw["status"] = {"observedGeneration": 3, "updateRevision": "r"}
    assert templates(Objects(), STATEFUL_SET, spec) == {"broker": Template("r", 6)}


def test_stateful_sets_are_read_after_the_status_while_waiting_for_a_roll(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(polling, "EVERY", 0.0)

    def raw(_plural: tuple[str, str], _version: str, name: str) -> dict[str, Any]:
        template = TEMPLATES[name]
        status = {"observedGeneration": 1, "updateRevision": template.revision}
        return {"metadata": {"generation": 1}, "spec": {"replicas": template.replicas}, "status": status}

    readings = Readings(rolled(ONE_LEFT), rolled(ALL_CURRENT))
    monkeypatch.setattr(readings, "object_of", raw, raising=False)
    ending = _until(cast(Kube, readings), "orders", ROLLED, 60)
    assert ending.code is Exit.DONE
    assert capsys.readouterr().err == f"5 of 6 pods of broker at revision {NEW}\n"


def test_without_the_right_to_read_stateful_sets_waiting_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "EVERY", 0.0)
    readings = Readings(*[rolled(ONE_LEFT)] * 3)

    def denied(*_: Any) -> None:
        raise DENIED

    monkeypatch.setattr(readings, "object_of", denied, raising=False)
    with pytest.raises(Denied):
        _until(cast(Kube, readings), "orders", ROLLED, 60)


@pytest.mark.parametrize("is_readable", [True, False], ids=["readable", "not readable"])
def test_a_wait_reads_whether_a_pause_of_strimzi_is_over_as_far_as_this_user_may(
    monkeypatch: pytest.MonkeyPatch, is_readable: bool
) -> None:
    """The Kafka is not paused any more, and the first status still has the pause."""
    monkeypatch.setattr(polling, "EVERY", 0.0)
    paused = statuses.stalled()
    for condition in paused["conditions"]:
        condition["reason"] = "StrimziPaused" if condition["type"] == "Stalled" else condition["reason"]
    spec = {"cluster": {"strimzi": {"name": "my-cluster"}}}
    readings = Readings(resource(paused, spec=spec), resource(statuses.in_sync(), spec=spec))

    def kafka(*_: Any) -> None:
        if not is_readable:
            raise DENIED

    monkeypatch.setattr(readings, "object_of", kafka, raising=False)
    ending = _until(cast(Kube, readings), "orders", READY, 60)
    assert ending.code is (Exit.DONE if is_readable else Exit.STALLED)


class Readings:
    """An API server that answers in this order: resources, and failures that are raised."""

    namespace, request_timeout = "kafka", 0.0

    def __init__(self, *readings: KubeResource | CommandFailed) -> None:
        self._readings = list(readings)

    def resource(self, _: str) -> KubeResource:
        reading = self._readings.pop(0)
        if isinstance(reading, CommandFailed):
            raise reading
        return reading


def until(*readings: KubeResource | CommandFailed) -> Ending:
    return _until(cast(Kube, Readings(*readings)), "orders", READY, 60)


AWAY, DENIED = Away("away", Exit.UNREACHABLE), Denied("not allowed", Exit.BLOCKED)


def test_waiting_continues_after_a_short_refusal_of_the_api_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An API server that starts answers 401 and 403 until it has read its roles. No reading was successful before."""
    monkeypatch.setattr(polling, "EVERY", 0.0)
    acting, done = resource(statuses.acting()), resource(statuses.in_sync())
    assert until(AWAY, acting, AWAY, AWAY, DENIED, acting, done).code is Exit.DONE
    line = "UpdatingFeatures: metadata.version 21 -> 27"
    assert capsys.readouterr().err.splitlines() == ["away", line, "away", "not allowed", line]


def test_a_lasting_refusal_of_the_api_server_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal counts as lasting if no reading was allowed before, or none within `GRACE` seconds."""
    monkeypatch.setattr(polling, "EVERY", 0.0)
    with pytest.raises(Denied):
        until(AWAY, DENIED)
    monkeypatch.setattr(polling, "GRACE", 0.0)
    with pytest.raises(Denied):
        until(resource(statuses.acting()), DENIED)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("ready", READY),
        ("Ready", READY),
        ("rolled", Goal(rolled=True)),
        ("feature=group.version>=1", Goal("group.version", 1)),
        ("feature=metadata.version>=27", NOT_REACHED),
        ("feature=metadata.version>=4.1-IV1", NOT_REACHED),
        ("feature=metadata.version>=4.1", NOT_REACHED),
    ],
)
def test_valid_goals_of_wait_are_parsed(text: str, goal: Goal) -> None:
    assert _goal(text) == goal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "condition=Ready",
        "feature=group.version",
        "feature=group.version=1",
        "feature=group.version>=0",
        "feature=group.version>=-1",
        "feature=group.version>=4.1-IV1",
        "feature=metadata.version>=9.9",
        "feature=Group>=1",
    ],
)
def test_invalid_goals_of_wait_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        _goal(text)
