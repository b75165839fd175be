"""A metadata log that was restored from a backup stops every change until a person accepts it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, LogPosition
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, Role
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.reconcile.accounting import compare_with_log
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.ports import Resource
from tests.kafkafeatures.core import migrations
from tests.kafkafeatures.core.migrations import wanting
from tests.kafkafeatures.ensembles import CLUSTER
from tests.kafkafeatures.reconcile.accounts import (
    CONSENT,
    CONSENTS,
    DOWN,
    UP,
    approve,
    held_reason,
    of_log,
    restart_at_snapshot,
    resumes,
    stalled,
    waiting,
)
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkafeatures.reconcile.test_ages import Clocks
from tests.kafkafeatures.worlds import NOW


def restored(cluster: Cluster, store: Store, *, offset: int = 10_000, epoch: int = 0) -> None:
    """Write to the status that the log was read up to this position, which is beyond its end, as after a restore."""
    position = {"offset": offset, "epoch": epoch}
    store.status = {**store.status, "logPosition": position}


def acceptance(cluster: Cluster) -> str:
    """Return the value with which a person accepts the log: the cluster id and the epoch of its leader."""
    return f"{cluster.world.cluster_id}@{cluster.world.image.epoch}"


def accept(store: Store, accepted: str) -> None:
    """Accept the restored log by annotation."""
    metadata = {"annotations": {"kafkafeatures.dev/accept-restored-log": accepted}}
    store.server.edit("ns", "name", lambda manifest: manifest["metadata"].update(metadata))


def test_a_log_that_ends_before_the_recorded_offset_stops_every_change_until_a_person_accepts_it() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    restored(cluster, store)
    before = store.writes
    for _ in range(3):
        last = once(cluster, store)
        assert stalled(last) is Reason.CLUSTER_ID_MISMATCH
        assert isinstance(last.decision, Stalled)
        assert f'accept-restored-log: "{acceptance(cluster)}"' in last.decision.message
        asyncio.run(cluster.sleep(60))
    assert store.writes == before + 1
    accept(store, f"{cluster.world.cluster_id}@77")  # another epoch than the one that the message names
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    assert cluster.sent == []
    accept(store, acceptance(cluster))
    run(cluster, store)
    assert cluster.sent == []
    assert store.status["spentConsents"] == sorted([acceptance(cluster), CONSENT])  # it may have been used before
    assert store.status["logPosition"]["offset"] < 10_000
    resumes(store, consents=frozenset(), approvals=frozenset())
    run(cluster, store)
    resumes(store, consents=CONSENTS)
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_log_of_an_older_epoch_is_another_log_although_it_is_longer() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    restored(cluster, store, offset=1, epoch=cluster.world.image.epoch + 1)
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH


def test_a_step_that_was_sent_into_a_log_that_is_gone_is_not_reported_as_undone() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    (intent,) = store.status["intents"]
    store.status = {**store.status, "intents": [{**intent, "offset": 10_000}], "logPosition": {"offset": 5, "epoch": 0}}
    for _ in range(2):
        assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    assert (len(cluster.sent), len(store.status["intents"])) == (1, 1)
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["Unverified", "Applied"]


def test_the_log_position_of_this_process_counts_even_if_no_status_was_written_since() -> None:
    (cluster, store), clocks = waiting(UP, {}), Clocks()
    position = store.status["logPosition"]
    asyncio.run(cluster.sleep(600))
    clocks.reconcile(cluster, store)
    assert store.status["logPosition"] == position
    cluster.shows = lambda readings: of_log(readings, lambda image: replace(image, offset=position["offset"] + 1))
    assert stalled(clocks.reconcile(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    clocks.restart()
    assert isinstance(clocks.reconcile(cluster, store).decision, Done | Held)


def test_a_restored_log_that_grew_past_its_former_end_is_still_another_log() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    end = cluster.world.image.offset + 100
    epoch = cluster.world.image.epoch
    restored(cluster, store, offset=end, epoch=epoch)
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    assert cluster.world.active is not None
    cluster.world.stop(Role.CONTROLLER, cluster.world.active)
    asyncio.run(cluster.sleep(120))
    assert cluster.world.image.offset > end
    for _ in range(2):
        assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    assert cluster.sent == []
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)


def test_a_log_that_lacks_the_recorded_position_is_another_log_although_it_is_longer() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    restart_at_snapshot(cluster)
    restored(cluster, store, offset=3, epoch=0)

    async def lacks_position(offset: int, epoch: int) -> EarlierMoves | Failure:
        """Read a log that has other records at the recorded position, offset 3."""
        return EarlierMoves(restored=offset == 3)

    cluster.moves_since = lacks_position  # type: ignore[method-assign]
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)


def test_an_acceptance_of_one_restored_log_accepts_no_other_log_of_the_same_epoch() -> None:
    """A cluster that is restored twice from one backup elects a leader of the same epoch twice, and the acceptance may
    still be in Git.
    """
    cluster, store = waiting(UP, {})
    resumes(store)
    restored(cluster, store)
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)
    assert store.status["spentConsents"] == [acceptance(cluster)]
    restored(cluster, store)
    before = store.writes
    for _ in range(2):
        last = once(cluster, store)
        assert stalled(last) is Reason.CLUSTER_ID_MISMATCH
        assert isinstance(last.decision, Stalled)
        assert "accepted an earlier log: remove it first" in last.decision.message
    assert store.writes == before + 1
    accept(store, "")
    last = once(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert "accepted an earlier log" not in last.decision.message
    assert not store.status["spentConsents"]
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)


async def test_the_log_of_a_migration_attempt_after_a_rollback_is_not_taken_for_a_restored_log() -> None:
    """After a rollback the disks of controllers are wiped, as a person is asked to: the log of a
    second attempt is new.
    """
    position, ages = LogPosition(offset=500, epoch=3), Ages(lambda: 0.0)
    ages.read_until[CLUSTER] = position
    status = replace(EMPTY, cluster_id=CLUSTER, log_position=position)
    before = Resource("name", 1, wanting(Desired.ROLLED_BACK), status)

    after, reason, _ = await compared(ages, before, migrations.cluster(Position.ZOOKEEPER))
    assert reason is None
    assert after.status.log_position is None

    _, reason, _ = await compared(ages, after, migrations.cluster(Position.PRE_MIGRATION))
    assert reason is None


async def test_the_log_position_is_kept_while_a_quorum_does_not_answer_during_a_migration() -> None:
    position, ages = LogPosition(offset=500, epoch=3), Ages(lambda: 0.0)
    status = replace(EMPTY, cluster_id=CLUSTER, log_position=position)
    before = Resource("name", 1, wanting(Desired.DUAL_WRITE), status)

    for target in (Position.COPIED, Position.DUAL_WRITE):
        silent = migrations.without_quorum(migrations.cluster(target))
        after, _, _ = await compared(ages, before, silent)
        assert after.status.log_position == position


async def compared(ages: Ages, resource: Resource, observation: Observation) -> tuple[Resource, object, object]:
    """Compare the log of this observation with the status of the resource, at `NOW`."""
    kafka: Any = SimpleNamespace()  # no older part of the log is read here
    return await compare_with_log(kafka, ages, resource, observation, at=stamp(NOW), age_of=lambda _: timedelta(0))
