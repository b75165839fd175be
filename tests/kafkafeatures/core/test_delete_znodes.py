"""The ZooKeeper transaction that ends a rollback: its operations, and how its outcome is settled.

Readings are as they were seen on real nodes of Kafka 3.9.1; what real ZooKeeper makes of it is in tests/e2e.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, HistoryEntry, Intent, MigrationStatus, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import ON_ITS_WAY, ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import UnknownStep
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.znodes import ControllerEpoch, ZooKeeperReading
from kafkafeatures.core.kinds import in_flight, kind_of
from kafkafeatures.core.migration.delete_znodes import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    DeleteZnodes,
    DeletionInFlight,
    ZnodeLife,
)
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.release import release, withdraw
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.report.history import with_result
from tests.kafkafeatures.core.migrations import cluster, looks, wanting
from tests.kafkafeatures.ensembles import CLUSTER, ENSEMBLE, claimed, elected, progress, reading
from tests.kafkafeatures.worlds import NOW, observation

AT = Stamp("2026-01-02T03:04:05Z")
UNREAD = Failure(FailureKind.AUTHORIZATION, "znode /controller", "not authorized to read it", "grant READ on it")


def expect_deletion(deletion: DeleteZnodes | Failure) -> DeleteZnodes:
    assert isinstance(deletion, DeleteZnodes), deletion
    return deletion


def expect_refusal(deletion: DeleteZnodes | Failure) -> str:
    assert isinstance(deletion, Failure)
    return str(deletion)


WHOLE = expect_deletion(release(reading(controller_epoch=ControllerEpoch(12, 12)), partition_epoch=3))
RAISED = expect_deletion(release(reading(), partition_epoch=7))
EARLY = expect_deletion(withdraw(reading(controller=elected(), migration=progress(-1, version=0))))
STEPS = {"release": WHOLE, "release and raise": RAISED, "withdraw": EARLY}
"""Deletions: of /controller and /migration; the same, and the epoch is raised; of /migration, before the takeover."""


# --- the operations of the transaction ---


def test_the_transaction_deletes_controller_and_migration_in_the_versions_that_were_read() -> None:
    migration = progress(czxid=40, version=9)
    controller = replace(claimed(czxid=70), version=3)
    epoch = ControllerEpoch(12, version=8)  # above those of the quorum and of the partitions, so it is not raised
    znodes = reading(controller=controller, migration=migration, controller_epoch=epoch)
    deletion = expect_deletion(release(znodes, partition_epoch=3))
    assert deletion == DeleteZnodes(
        cluster_id=CLUSTER,
        epoch=epoch,
        migration=ZnodeLife(czxid=40, version=9),
        controller=ZnodeLife(czxid=70, version=3),
        raise_to=None,
        znode_content=migration.text,
    )
    assert list(deletion.deletes) == ["/controller", "/migration"]
    assert str(deletion) == "delete /controller and /migration"


@pytest.mark.parametrize(
    ("epoch", "claim", "copied", "partition", "raised"),
    [
        pytest.param(5, 3, 3, 3, None, id="already higher"),
        pytest.param(4, 3, 3, 3, None, id="already higher by one"),
        pytest.param(3, 3, 3, 3, 4, id="equal"),
        pytest.param(2, 6, 3, 3, 7, id="/controller has the highest"),
        pytest.param(2, 3, 7, 3, 8, id="/migration has the highest"),
        pytest.param(2, 3, 3, 9, 10, id="a partition has the highest"),
        pytest.param(5, 3, 3, -1, None, id="no partition"),
        pytest.param(1, 1, 1, -1, 2, id="no partition, equal"),
    ],
)
def test_the_controller_epoch_is_raised_above_those_of_the_quorum_and_of_every_partition(
    epoch: int, claim: int, copied: int, partition: int, raised: int | None
) -> None:
    znodes = reading(
        controller_epoch=ControllerEpoch(epoch, 8), controller=claimed(epoch=claim), migration=progress(epoch=copied)
    )
    assert expect_deletion(release(znodes, partition_epoch=partition)).raise_to == raised


def test_a_controller_znode_is_deleted_also_without_a_migration_znode() -> None:
    step = expect_deletion(release(reading(migration=None), partition_epoch=3))
    assert (list(step.deletes), step.znode_content, str(step)) == (["/controller"], "", "delete /controller")


def test_before_the_quorum_takes_over_only_the_migration_znode_is_deleted_and_the_epoch_stays() -> None:
    assert (list(EARLY.deletes), EARLY.raise_to) == (["/migration"], None)


def test_only_the_deletion_after_the_takeover_goes_outside_of_windows_too() -> None:
    assert not EARLY.goes_at_any_time
    assert WHOLE.goes_at_any_time


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"controller": elected()}, "znode /controller: names a broker in ZooKeeper mode"),
        ({"controller": None}, "znode /controller: is absent"),
        ({"controller": UNREAD}, "not authorized to read it"),
        ({"migration": UNREAD}, "not authorized to read it"),
        ({"cluster_id": UNREAD}, "not authorized to read it"),
        ({"cluster_id": None}, "znode /cluster/id: is absent"),
        ({"controller_epoch": UNREAD}, "not authorized to read it"),
        ({"controller_epoch": None}, "znode /controller_epoch: is absent"),
        ({"migration": replace(progress(), text="{}" + " " * 511)}, "holds more than 512 bytes"),
        ({"controller_epoch": ControllerEpoch(2**31 - 1, 9)}, "cannot be raised"),
    ],
    ids=["a broker is controller", "no controller", "/controller unread", "/migration unread", "/cluster/id unread",
         "no /cluster/id", "/controller_epoch unread", "no /controller_epoch", "/migration too long", "last epoch"],
)  # fmt: skip
def test_the_deletion_of_controller_and_migration_is_refused_with_the_cause(parts: Any, message: str) -> None:
    assert message in expect_refusal(release(reading(**parts), partition_epoch=3))


def test_no_controller_epoch_above_the_maximum_of_kafka_is_written() -> None:
    assert expect_deletion(release(reading(), partition_epoch=2**31 - 3)).raise_to == 2**31 - 2
    assert "cannot be raised above 2147483646" in expect_refusal(release(reading(), partition_epoch=2**31 - 2))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "names controller 3003 of a quorum"),
        ({"controller": UNREAD}, "not authorized"),
        ({"controller": elected(), "migration": None}, "znode /migration: is absent"),
        ({"controller": elected(), "controller_epoch": None}, "is absent"),
    ],
)
def test_the_deletion_of_the_migration_znode_alone_is_refused_with_the_cause(parts: Any, message: str) -> None:
    assert message in expect_refusal(withdraw(reading(**parts)))


# --- the result ---


def observation_of_znodes(read: ZooKeeperReading | Failure) -> Observation:
    if isinstance(read, Failure):
        return replace(observation(), zookeeper=Unknown(read))
    return replace(observation(), zookeeper=Known(read, SourceKind.ZOOKEEPER, ENSEMBLE, NOW))


def settled(
    step: DeleteZnodes,
    after: ZooKeeperReading | Failure,
    before: ZooKeeperReading | Failure | None = None,
    *,
    age: timedelta = timedelta(seconds=1),
    longest: timedelta = timedelta(0),
) -> Result | str:
    """Return the result of the deletion, or the reason why its outcome is open. `before`, `after`: two readings, or
    one; `age`: time since it was sent; `longest`: the longest time for which a server may still apply it.
    """
    last = observation_of_znodes(after)
    first = observation_of_znodes(before) if before is not None else last
    readings = ObservationPair(first, last, AT, lambda _: age, lambda _: age, lambda _: longest)
    settlement = DeletionInFlight(step, AT, Via.ZOOKEEPER).settle(readings)
    return settlement.reason if isinstance(settlement, OpenOutcome) else settlement


def znodes_before(step: DeleteZnodes, **parts: Any) -> ZooKeeperReading:
    """Build the ensemble as the step was decided on, with these parts replaced."""
    before: dict[str, Any] = {"controller_epoch": step.epoch}
    before |= {} if step.controller else {"controller": elected()}
    before |= {} if step.migration is None or step.controller else {"migration": progress(-1, version=0)}
    return reading(**{**before, **parts})


def znodes_after(step: DeleteZnodes, **parts: Any) -> ZooKeeperReading:
    """Build the ensemble after the deletion, once a broker was elected controller."""
    value = step.epoch.value if step.raise_to is None else step.raise_to
    epoch = ControllerEpoch(value + 1, step.epoch.version + 2) if step.controller else step.epoch
    return reading(**{"controller_epoch": epoch, "controller": elected(), "migration": None, **parts})


LONG = ON_ITS_WAY + timedelta(seconds=1)
"""An age after which no request is on its way any more."""


@pytest.mark.parametrize("name", STEPS)
def test_a_deletion_was_carried_out_once_none_of_its_znodes_exists(name: str) -> None:
    """A `/migration` that was created after the deletion belongs to a migration that was begun anew."""
    step = STEPS[name]
    assert settled(step, znodes_after(step)) is Result.APPLIED
    created_anew = progress(-1, czxid=95, version=0)
    assert settled(step, znodes_after(step, migration=created_anew)) is Result.APPLIED


@pytest.mark.parametrize("name", ["release", "release and raise"])
def test_a_deletion_was_carried_out_also_with_no_controller_or_with_a_new_quorum(name: str) -> None:
    step = STEPS[name]
    assert settled(step, znodes_after(step, controller=None)) is Result.APPLIED
    assert (
        settled(step, znodes_after(step, controller=claimed(czxid=95), migration=progress(czxid=96))) is Result.APPLIED
    )


@pytest.mark.parametrize("name", STEPS)
def test_a_deletion_was_not_carried_out_if_two_readings_agree_and_no_server_may_still_apply_it(name: str) -> None:
    step = STEPS[name]
    unchanged = znodes_before(step)
    assert settled(step, unchanged, unchanged, age=LONG) is Result.NOT_APPLIED
    assert settled(step, unchanged, age=LONG) == "the znodes have to be read twice"
    assert settled(step, unchanged, znodes_after(step), age=LONG) == "the znodes have to be read twice"
    assert settled(step, unchanged, UNREAD, age=LONG) == "the znodes have to be read twice"
    assert settled(step, unchanged, unchanged) == "ZooKeeper may still carry it out, until 30 s after it began"
    two_minutes = timedelta(minutes=2)
    assert "until 2 min after" in str(settled(step, unchanged, unchanged, age=LONG, longest=two_minutes))
    assert settled(step, unchanged, unchanged, age=two_minutes, longest=two_minutes) is Result.NOT_APPLIED


@pytest.mark.parametrize("name", STEPS)
def test_once_the_epoch_was_written_the_deletion_can_no_longer_be_carried_out(name: str) -> None:
    step = STEPS[name]
    later = ControllerEpoch(step.epoch.value + 1, step.epoch.version + 1)
    assert settled(step, znodes_before(step, controller_epoch=later)) is Result.NOT_APPLIED


def test_a_deletion_was_not_carried_out_if_only_one_of_its_znodes_is_gone_or_replaced() -> None:
    assert settled(WHOLE, znodes_before(WHOLE, migration=None)) is Result.NOT_APPLIED
    assert settled(WHOLE, znodes_before(WHOLE, controller=None)) is Result.NOT_APPLIED
    assert settled(WHOLE, znodes_before(WHOLE, controller=claimed(3001, epoch=4, czxid=99))) is Result.NOT_APPLIED


def test_an_epoch_that_was_not_raised_shows_that_another_client_deleted_both() -> None:
    by_hand = znodes_after(RAISED, controller_epoch=ControllerEpoch(RAISED.epoch.value + 1, RAISED.epoch.version + 1))
    assert settled(RAISED, by_hand) is Result.SUPERSEDED


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (UNREAD, "the znodes have to be read: znode /controller: not authorized"),
        (NOT_ASKED, "the znodes have to be read"),
        (znodes_after(WHOLE, controller=UNREAD), "not authorized"),
        (znodes_after(WHOLE, migration=UNREAD), "not authorized"),
        (znodes_after(WHOLE, controller_epoch=UNREAD), "not authorized"),
        (znodes_after(WHOLE, cluster_id=UNREAD), "not authorized"),
        (znodes_after(WHOLE, cluster_id="another"), f"connected to cluster another, expected {CLUSTER}"),
        (znodes_after(WHOLE, cluster_id=None), "expected"),
        (znodes_after(WHOLE, controller_epoch=ControllerEpoch(11, 14)), "znode /controller_epoch: it is older"),
        (znodes_after(WHOLE, controller_epoch=ControllerEpoch(13, 3)), "znode /controller_epoch: it is older"),
        (znodes_after(WHOLE, controller_epoch=None), "znode /controller_epoch: it is older"),
        (znodes_after(WHOLE, controller=claimed(czxid=69)), "znode /controller: it is older"),
        (znodes_after(WHOLE, migration=progress(czxid=39)), "znode /migration: it is older"),
    ],
    ids=["unread", "not asked", "/controller unread", "/migration unread", "/controller_epoch unread",
         "/cluster/id unread", "another cluster", "no /cluster/id", "epoch below 12, that of the step",
         "older version of that epoch", "no /controller_epoch", "/controller of before", "/migration of before"],
)  # fmt: skip
def test_an_unread_or_foreign_ensemble_settles_no_deletion(read: ZooKeeperReading | Failure, message: str) -> None:
    settlement = settled(WHOLE, read, read, age=LONG)
    assert not isinstance(settlement, Result), settlement
    assert message in settlement


def test_znodes_outside_the_deletion_need_not_be_readable() -> None:
    assert settled(EARLY, znodes_after(EARLY, controller=UNREAD)) is Result.APPLIED


# --- the intent, the status and the events ---


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("accepted", [False, True])
def test_the_intent_of_a_deletion_is_read_back_as_written(name: str, accepted: bool) -> None:
    sent = DeletionInFlight(STEPS[name], AT, Via.ZOOKEEPER, accepted=accepted)
    restored = in_flight(Intent.read(sent.to_intent().as_json()))
    assert isinstance(restored, DeletionInFlight)
    assert replace(restored, intent=None) == sent
    assert len(str(sent.to_intent().as_json())) < 1024


@pytest.mark.parametrize(
    "damage",
    [
        {"epoch": None},
        {"epoch": -1},
        {"epochVersion": "5"},
        {"controllerVersion": -1},  # for ZooKeeper this means any version
        {"migrationCzxid": 2**63},
        {"clusterId": 7},
        {"raiseTo": True},
        {"kept": {}},
    ],
    ids=str,
)
def test_an_intent_that_is_damaged_is_not_read(damage: dict[str, Any]) -> None:
    written = DeletionInFlight(RAISED, AT, Via.ZOOKEEPER).to_intent()
    assert isinstance(in_flight(Intent(kind=written.kind, unknown={**written.unknown, **damage})), UnknownStep)


def test_an_intent_that_deletes_nothing_is_not_read() -> None:
    written = DeletionInFlight(EARLY, AT, Via.ZOOKEEPER).to_intent()
    fields = {name: value for name, value in written.unknown.items() if not name.startswith("migration")}
    assert isinstance(in_flight(Intent(kind=written.kind, unknown=fields)), UnknownStep)


def ended(step: DeleteZnodes, result: Result) -> tuple[Status, Status]:
    """Return the status while the step is in flight, and the status after its end."""
    sent = DeletionInFlight(step, AT, Via.ZOOKEEPER)
    before = replace(EMPTY, intents=(sent.to_intent(),), migration=MigrationStatus(unknown={"phase": "RollingBack"}))
    return before, with_result(before, sent, result, at=AT, age_of=lambda _: timedelta(0))


def test_the_content_of_the_deleted_migration_znode_is_in_the_intent_the_event_and_the_status() -> None:
    before, after = ended(RAISED, Result.APPLIED)
    text = progress().text
    assert before.intents[0].unknown["kept"] == text
    (begun,) = events_between(EMPTY, before)
    assert (begun.reason, begun.facts.kept, begun.warning) == ("DeletingZnodes", text, False)
    assert begun.note == f"delete /controller and /migration, raise /controller_epoch 5 -> 8; /migration was {text}"
    assert after.migration == MigrationStatus(kept_migration_node=text, unknown={"phase": "RollingBack"})
    assert after.intents == ()
    (end,) = events_between(before, after)
    assert (end.reason, end.facts.kept) == ("ZnodesDeleted", text)
    assert end.note.endswith(f"/migration was {text}")


@pytest.mark.parametrize("result", [Result.NOT_APPLIED, Result.REJECTED, Result.NOT_SENT])
def test_a_deletion_that_was_not_carried_out_leaves_no_content_of_the_znode_and_no_event(result: Result) -> None:
    before, after = ended(RAISED, result)
    assert after.migration == before.migration
    assert events_between(before, after) == ()


def test_the_end_of_a_deletion_that_is_read_after_an_operator_restart_is_an_event_too() -> None:
    _, after = ended(WHOLE, Result.APPLIED)
    (end,) = events_between(EMPTY, after)
    assert (end.reason, end.note) == ("ZnodesDeleted", "delete /controller and /migration")


def test_a_carried_out_deletion_does_not_count_as_a_change_that_needs_another_plan_hash() -> None:
    _, after = ended(WHOLE, Result.APPLIED)
    assert after.change_count == 0
    (entry,) = after.history
    assert (entry.kind, entry.target, entry.result) == ("DeleteZnodes", "/controller and /migration", "Applied")
    assert kind_of(HistoryEntry(at=AT, action="", kind="DeleteZnodes", result="Applied")) is DeleteZnodes


@pytest.mark.parametrize(
    ("code", "reason", "needs_action"),
    [
        (NO_AUTH, Reason.NOT_AUTHORIZED, True),
        (BAD_VERSION, Reason.MIGRATING, False),
        (NO_NODE, Reason.MIGRATING, False),
        (-111, Reason.MIGRATION_FAILED, True),
    ],
)
def test_each_error_code_of_zookeeper_has_its_reason_and_message(code: int, reason: Reason, needs_action: bool) -> None:
    rejection = WHOLE.rejection(code, "znode /controller: because")
    assert (rejection.reason, rejection.needs_action, rejection.recorded) == (reason, needs_action, "")
    assert rejection.message == "ZooKeeper refused to delete /controller and /migration: znode /controller: because"


def test_the_lines_about_a_deletion_name_its_znodes_and_its_progress() -> None:
    sent = DeletionInFlight(WHOLE, AT, Via.ZOOKEEPER)
    unanswered, answered = (deletion.progress(lambda _: "3 s") for deletion in (sent, replace(sent, accepted=True)))
    assert unanswered == "delete /controller and /migration, sent 3 s ago; outcome not known yet"
    assert answered == "delete /controller and /migration, sent 3 s ago; done; the znodes are being read again"
    assert WHOLE.request == "ZooKeeper transaction: delete /controller and /migration"
    assert WHOLE.in_progress == "delete /controller and /migration in ZooKeeper"


def test_the_intent_of_a_deletion_does_not_cover_the_same_deletion_again() -> None:
    assert not WHOLE.is_asked_for_by(WHOLE)


def test_the_content_of_the_deleted_znode_stays_in_the_status_while_rolling_back() -> None:
    remembered = MigrationStatus(phase="RollingBack", kept_migration_node=progress().text)
    previous = replace(EMPTY, migration=remembered)
    look = looks(wanting(Desired.ROLLED_BACK), cluster(Position.PRE_MIGRATION), status=previous)
    (migration,) = (stage for stage in look.stages if stage.kind == MIGRATION)
    reported = migration.reported(look.decision, EMPTY, previous).migration
    assert reported is not None
    assert (reported.phase, reported.kept_migration_node) == ("RollingBack", progress().text)
