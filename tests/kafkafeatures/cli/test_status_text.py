"""The text of `status` and `plan NAME`: for every kind of status, wide and narrow, without colour."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from rich.console import Console

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import read_status
from kafkafeatures.cli.kube.plan import plan_document_of
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.status_text import age, draw_plan_of, draw_status
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.levels.soak import soak_of
from kafkafeatures.core.report.plan_document import plan_document
from tests.kafkafeatures import statuses
from tests.kafkafeatures.deciding import changes_in, decide, facts_of, propose
from tests.kafkafeatures.statuses import UP, resource
from tests.kafkafeatures.worlds import NOW, observation

LATER = NOW + timedelta(minutes=12)
HINT = "To approve:"
COMMAND = "kafkafeatures "  # a line with a command is copied by users, so it is not wrapped


def drawn(draw: Callable[[Console], None], width: int = 100) -> list[str]:
    """The lines that are drawn, all of which have to fit the width, except commands."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    draw(console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines if COMMAND not in line)
    return [line.rstrip() for line in lines]


def shown(found: KubeResource, width: int = 100) -> list[str]:
    return drawn(lambda console: draw_status(console, found, LATER), width)


KINDS = {
    "none": resource(),
    "in sync": resource(statuses.in_sync()),
    "acting": resource(statuses.acting()),
    "approval": resource(statuses.waiting_for_approval()),
    "soaking": resource(statuses.soaking()),
    "stalled": resource(statuses.stalled()),
    "suspended": resource(statuses.suspended(), spec={"suspend": True}),
    "without a driver": resource(statuses.suspended(), spec={"workload": {"statefulSet": {"brokers": ["a"]}}}),
    "observed": resource(statuses.observed()),
    "unreachable": resource(statuses.unreachable(statuses.acting())),
}


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("name", KINDS)
def test_wrapped_lines_of_a_list_stay_indented(name: str, width: int) -> None:
    lines = shown(KINDS[name], width)
    lists = [at for at, one in enumerate(lines) if one in ("Blockers", "Conditions", "History, newest first", "Roll")]
    for at in lists:
        end = lines.index("", at) if "" in lines[at:] else len(lines)
        assert all(one.startswith("  ") for one in lines[at + 1 : end]), lines[at:end]


@pytest.mark.parametrize("draw", [draw_status, partial(draw_plan_of, verdict=PlanVerdict.APPROVAL_REQUIRED)])
def test_wrapped_lines_of_a_message_are_indented_below_its_first_line(draw: Callable[..., None]) -> None:
    lines = drawn(lambda console: draw(console, KINDS["approval"], current_time=LATER), 60)
    begins = next(at for at, one in enumerate(lines) if "approve plan sha256:" in one)
    assert lines[begins + 1].startswith("  ")


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_every_status_fits_terminals_of_any_width(kind: str, width: int) -> None:
    assert shown(KINDS[kind], width)[0].startswith("kafka/orders  ")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("none", "kafka/orders  not reconciled"),
        ("in sync", "kafka/orders  ready: InSync, for 12m"),
        ("acting", "kafka/orders  not ready: UpdatingFeatures, for 12m"),
        ("approval", "To approve: kafkafeatures approve orders -n kafka --plan sha256:"),
        ("approval", "  1. metadata.version 21 (3.9-IV0) -> 27 (4.1-IV1)  irreversible"),
        ("approval", "  2. group.version 0 -> 1  downgrade may lose metadata"),
        ("approval", "metadata.version  21 (3.9-IV0)  27 (4.1-IV1)  7-27       Pending"),
        ("soaking", "kafka/orders  not ready: Soaking, for 12m"),
        ("soaking", "Soaking for 12m: every node healthy since 2026-01-02T03:04:05Z"),
        ("soaking", "Way back: until 2026-01-03T03:04:05Z: set the document to metadata.version 21 (3.9-IV0), then"),
        ("soaking", "To approve: kafkafeatures approve orders -n kafka --plan sha256:"),
        ("stalled", "  GhostRegistration: controller 3003, Kafka 3.9; registered, but not running"),
        ("stalled", "    metadata.version 1-21 (up to 3.9-IV0); 27 (4.1-IV1) is required"),
        ("stalled", "    start a controller with id 3003 on the new Kafka once"),
        ("suspended", "Suspended by spec.suspend in the document; set it to false there to resume."),
        ("without a driver", "spec.workload.statefulSet has no effect without a driver, so no pod is restarted; set"),
        ("observed", "kafka/orders  ready: Observed, for 12m"),
        ("unreachable", "kafka/orders  unknown: Unreachable, for 12m"),
        ("unreachable", "The cluster could not be read for 12m; levels and plan are from the last successful read."),
    ],
)
def test_a_status_is_shown_with_its_state_and_its_remedies(kind: str, line: str) -> None:
    assert any(one.startswith(line) for one in shown(KINDS[kind]))


MINUTE = timedelta(minutes=1)


def stamped(status: Mapping[str, Any], ready: timedelta, stalled: timedelta, **more: Any) -> KubeResource:
    """A status whose conditions Ready and Stalled last changed so long before LATER."""
    ages = {"Ready": ready, "Stalled": stalled}
    conditions = [
        {**one, "lastTransitionTime": stamp(LATER - ages.get(one["type"], ready))} for one in status["conditions"]
    ]
    return resource({**status, "conditions": conditions, **more})


def test_a_reason_is_shown_with_its_own_age_and_not_that_of_the_condition_ready() -> None:
    status = statuses.stalled()
    about = {"reason": "GhostRegistration", "subject": "controller 3003"}
    assert status["readyReason"] == {**about, "since": stamp(NOW)}
    since = {"reason": "GhostRegistration", "since": stamp(LATER - 2 * MINUTE)}
    found = stamped(status, 7 * MINUTE, 4 * MINUTE, readyReason=since)
    assert shown(found)[0] == "kafka/orders  not ready: GhostRegistration, for 2m (not ready for 7m)"
    assert any("Stalled=True, for 4m: GhostRegistration" in line for line in shown(found))


@pytest.mark.parametrize(
    "ready_reason",
    [{}, {"readyReason": {"reason": "Soaking", "since": stamp(LATER - MINUTE)}}],
    ids=["no start", "the start of another reason"],
)
def test_the_age_of_a_reason_comes_from_its_condition_if_the_status_has_no_start(ready_reason: dict[str, Any]) -> None:
    """An older release does not write `readyReason`, and leaves one that a newer release wrote as it was."""
    status = {name: one for name, one in statuses.stalled().items() if name != "readyReason"}
    found = stamped(status, 7 * MINUTE, 4 * MINUTE, **ready_reason)
    assert shown(found)[0] == "kafka/orders  not ready: GhostRegistration, for 4m (not ready for 7m)"


def test_the_condition_ready_and_its_reason_of_the_same_age_are_shown_with_one_age() -> None:
    # The reason began an hour before Ready changed: it had been the reason before, too.
    earlier = {"reason": "GhostRegistration", "since": stamp(LATER - 7 * MINUTE - timedelta(hours=1))}
    found = stamped(statuses.stalled(), 7 * MINUTE, 6.5 * MINUTE, readyReason=earlier)
    assert shown(found)[0] == "kafka/orders  not ready: GhostRegistration, for 7m"


def test_the_history_shows_the_irreversible_change_whatever_followed() -> None:
    """Five entries are shown, and the latest irreversible change that was made, however old it is."""
    action = "metadata.version 29 -> 30"
    made = {"at": stamp(NOW), "action": action, "result": "Applied"}
    not_made = {"at": stamp(NOW), "action": action, "result": "Rejected", "message": "no"}
    after = [{"at": stamp(LATER), "action": f"restart of broker {n}", "result": "Applied"} for n in range(6)]
    lines = shown(resource({**statuses.in_sync(), "history": [not_made, made, *after]}))
    at = lines.index("History, newest first")
    assert [line.split("  ", 2)[2] for line in lines[at + 1 :]] == [
        *(f"restart of broker {n}: Applied" for n in (5, 4, 3, 2, 1)),
        f"{action}: Applied  irreversible",
    ]


def test_each_feature_has_its_own_lines_in_a_narrow_terminal() -> None:
    lines = shown(KINDS["acting"], 60)
    at = lines.index("metadata.version  Pending")
    assert lines[at + 1] == "  21 (3.9-IV0) -> 27 (4.1-IV1); all nodes support 7-27"
    assert "FEATURE" not in "".join(lines)


@pytest.mark.parametrize("width", [70, 100])
def test_a_level_that_another_operator_sets_is_shown_with_its_failure(width: int) -> None:
    status = statuses.in_sync()
    managed = {
        "managedBy": "Strimzi (Kafka orders)",
        "managedLevel": 29,
        "managedProblem": "broker 3 is too old",
    }
    status["features"][0] |= managed
    lines = shown(resource(status), width)
    at = lines.index("metadata.version is set by Strimzi (Kafka orders), to 29 (4.2-IV1)")
    assert lines[at + 1] == "  broker 3 is too old"


def test_a_status_of_an_older_generation_is_shown_as_such() -> None:
    lines = shown(resource(statuses.in_sync(1), generation=2))
    assert "Generation 2 is not reconciled yet; the status is of generation 1." in lines
    assert any("(of generation 1)" in line for line in lines)


def test_a_plan_just_approved_is_shown_as_not_reconciled_yet() -> None:
    status = statuses.waiting_for_approval()
    lines = shown(resource(status, annotations={"kafkafeatures.dev/approve": status["plan"]["hash"]}))
    assert any("approved; not reconciled yet" in line for line in lines)
    assert not any(line.startswith(HINT) for line in lines)


def test_intents_history_and_used_consents_are_shown_newest_first() -> None:
    more = {
        "intents": [
            {"kind": "UpdateFeature", "target": "group.version", "before": "0", "after": "1", "at": stamp(NOW)},
            {"kind": "DeleteZnode", "target": "/feature"},
            {
                "kind": "RestartNode",
                "target": "broker-2",
                "title": "broker 3",
                "nodeId": 3,
                "before": "a",
                "after": "b",
                "via": "ApiServer",
                "at": stamp(NOW),
            },
            {"kind": "RestartNode", "target": "broker-2", "title": "broker 3", "before": "a", "after": "b"},
        ],
        "history": [
            {"at": stamp(NOW), "action": "metadata.version 20 -> 21", "result": "Applied"},
            {"at": stamp(LATER), "action": "share.version 0 -> 1", "result": "Rejected", "message": "error 95: no"},
        ],
        "spentConsents": ["share.version:1->0"],
    }
    lines = shown(resource({**statuses.acting(), **more}))
    assert "  group.version 0 -> 1, sent 12m ago; outcome not known yet" in lines
    assert "  DeleteZnode /feature; outcome not known yet" in lines
    assert "  restart of broker 3 (broker-2), begun 12m ago; not back yet" in lines
    assert "  broker 3 (broker-2); outcome not known yet" in lines  # this release cannot read the incomplete intent
    at = lines.index("History, newest first")
    assert [line.split("  ")[2] for line in lines[at + 1 : at + 3]] == [
        "share.version 0 -> 1: Rejected: error 95: no",
        "metadata.version 20 -> 21: Applied",
    ]
    assert lines[-1] == "  share.version:1->0"


def test_blockers_above_the_maximum_of_a_status_are_counted() -> None:
    # The status has 2 of its 100 blockers.
    assert "  and 98 more" in shown(resource({**statuses.stalled(), "blockersTotal": 100}))


def test_a_status_with_required_fields_only_is_shown() -> None:
    """Such a status can be written by hand, or by another release."""
    status = {
        "features": [{"name": "metadata.version"}],
        "plan": {"hash": "sha256:1", "steps": [{"detail": "RestartNode 3"}, {}]},
        "intents": [{}],
        "history": [{}],
        "blockers": [{"kind": "Quorum", "message": "no"}],
    }
    assert "  -. RestartNode 3" in shown(resource(status))


def test_a_status_with_invalid_fields_is_shown_as_far_as_it_can_be_read() -> None:
    status = statuses.stalled()
    status["conditions"][0]["lastTransitionTime"] = "long ago"
    status["features"][0]["finalized"] = "high"
    status["blockers"].append("a text")
    status["rollout"], status["history"] = 7, [{"at": "then", "action": 3, "result": None}]
    lines = shown(resource(status), 200)
    assert lines[0] == "kafka/orders  not ready: GhostRegistration, for ?"
    assert any(line.split()[:2] == ["metadata.version", "?"] for line in lines)
    assert any(line.startswith("  GhostRegistration: controller 3003") for line in lines)
    assert "  then  3: ?" in lines


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0s"), (89, "89s"), (90, "1m"), (5399, "89m"), (5400, "1h"), (200_000, "2d")]
)
def test_ages_are_shown_in_one_unit(seconds: int, text: str) -> None:
    assert age(stamp(NOW), NOW + timedelta(seconds=seconds)) == text


# --- plan NAME ---

PLANS = {
    "in sync": DesiredState({"metadata.version": 21}),
    "changes": DesiredState(UP),
    "approval": DesiredState({}, UP, uid=statuses.UID),
    "suspended": DesiredState(UP, suspend=True),
    "observed": DesiredState(UP, mode=Mode.OBSERVE),
    "soaking": DesiredState(UP, finalize_after=timedelta(hours=1)),
    "unknown feature": DesiredState({"no.such": 1}),
    "downgrade": DesiredState({"metadata.version": 20}),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_document_of_a_status_equals_that_of_a_live_observation(name: str) -> None:
    wanted, seen = PLANS[name], observation()
    stored = statuses.status(wanted)
    status, proposal = read_status(stored)[0], propose(wanted, seen, Memory())
    soak = soak_of(facts_of(wanted, seen, now=NOW), changes_in(proposal))
    decision = decide(wanted, seen, verdict=DryRunAccepted(), soak=soak)
    ours = plan_document_of(resource(stored))
    live = plan_document(
        decision, seen, proposal, DryRunAccepted(),
        status=status, name="kafka/orders", generation=1, verdict=ours["verdict"],
    )  # fmt: skip
    left_out = {"nodes", "notRead", "serverVerdict"}
    assert set(live) - left_out == set(ours)
    same = set(ours) - {"source"}
    assert {key: ours[key] for key in same} == {key: live[key] for key in same}


def test_the_plan_of_a_soaking_resource_has_its_start_and_the_end_of_the_way_back() -> None:
    document = plan_document_of(KINDS["soaking"])
    assert (document["verdict"], document["soakStartedAt"]) == (PlanVerdict.APPROVAL_REQUIRED, stamp(NOW))
    assert document["wayBack"]["until"] == stamp(NOW + timedelta(hours=24))
    lines = drawn(lambda console: draw_plan_of(console, KINDS["soaking"], PlanVerdict.APPROVAL_REQUIRED, LATER))
    assert any(line.startswith("Way back: until 2026-01-03T03:04:05Z: ") for line in lines)
    assert lines[0].startswith(f"{KINDS['soaking']}  cluster {KINDS['soaking'].status.cluster_id}")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (resource(), PlanVerdict.UNKNOWN),
        (resource(statuses.in_sync(1), generation=2), PlanVerdict.UNKNOWN),
        (resource(statuses.stalled(1), generation=2), PlanVerdict.UNKNOWN),
        (KINDS["unreachable"], PlanVerdict.UNKNOWN),
        (KINDS["stalled"], PlanVerdict.BLOCKED),
    ],
    ids=[
        "no status", "in sync with an older generation", "stalled with an older generation", "unreachable", "stalled",
    ],
)  # fmt: skip
def test_the_verdict_of_a_plan_follows_from_the_current_document_and_status(
    found: KubeResource, verdict: PlanVerdict
) -> None:
    assert plan_document_of(found)["verdict"] == verdict
    assert f"Plan: {verdict}" in "".join(drawn(lambda console: draw_plan_of(console, found, verdict, LATER)))


MIGRATING = {
    "metadataMode": "Migrating",
    "migration": {"phase": "DualWrite", "position": "DualWrite", "since": stamp(NOW), "restartsLeft": 3},
    "wayBack": {"how": "to ZooKeeper mode: set spec.migration.desired to RolledBack"},
}


@pytest.mark.parametrize("width", [60, 200])
def test_a_migration_is_shown_with_its_way_back_whether_there_is_a_plan_or_not(width: int) -> None:
    plan = {
        "hash": "sha256:1",
        "steps": [{"id": "1", "detail": "DualWrite -> Finalized", "wayBack": "no way back: it ends there"}],
    }
    back = "Way back: until an irreversible step is carried out: to ZooKeeper mode: set spec.migration.desired"
    for status in (MIGRATING, {**MIGRATING, "plan": plan}):
        found = resource(status)
        for lines in (
            shown(found, width),
            drawn(partial(draw_plan_of, resource=found, verdict=PlanVerdict.CHANGES, current_time=LATER), width),
        ):
            assert "Migration" in lines
            assert "  phase DualWrite, since 2026-01-02T03:04:05Z" in lines
            words = " ".join("\n".join(lines).split())
            assert words.count(back) == 1
            assert ("no way back: it ends there" in words) is ("plan" in status)


def test_the_status_of_a_cluster_without_a_migration_shows_none() -> None:
    """A stored copy of the migration znode is no migration under way."""
    assert "Migration" not in shown(KINDS["approval"])
    assert "Migration" not in shown(resource({"migration": {"keptMigrationNode": "{}"}}))


def test_the_plan_document_of_a_migration_has_migration_and_way_back_of_the_status() -> None:
    document = plan_document_of(resource(MIGRATING))
    assert (document["migration"], document["wayBack"]) == (MIGRATING["migration"], MIGRATING["wayBack"])


def test_a_roll_is_shown_until_every_node_is_current() -> None:
    rollout = {
        "total": 9,
        "done": 4,
        "restarted": 3,
        "nodeSeconds": 40,
        "rounds": 6,
        "notes": ["6 brokers in about 3 rounds"],
    }
    workloads = [{"name": "broker", "updateRevision": "broker-c4f", "updated": 2, "total": 6}]
    lines = shown(resource({**statuses.acting(), "rollout": rollout, "workloads": workloads}))
    at = lines.index("Roll")
    assert lines[at + 1 : at + 6] == [
        "  4 of 9 nodes are current",
        "  broker: 2 of 6 pods are updated",
        "  3 nodes restarted, in 40 s each on average",
        "  about 3 min left",  # 5 of 8 nodes remain (3 + 5), so 4 of 6 rounds, of 40 s each
        "  note: 6 brokers in about 3 rounds",
    ]
    over = {**rollout, "done": 9}
    assert "Roll" not in shown(resource({**statuses.acting(), "rollout": over, "workloads": workloads}))
