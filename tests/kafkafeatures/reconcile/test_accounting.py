"""What the metadata log shows and a status does not remember: levels that others moved between two readings, a status
that was lost or came out of a backup, a log that did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Stalled, Wait
from kafkafeatures.core.engine.steps import DryRun, DryRunRejected, Outcome, OutcomeUnknown
from kafkafeatures.core.engine.wanted import ApprovalPolicy, Mode, OnDrift, Wanted
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, FailureKind, Readings, Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.reconcile.act import Reconciliation
from kafkasim.readings import Access
from kraftlog import FormerLevels, Image
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkafeatures.reconcile.test_ages import Clocks
from tests.kafkafeatures.reconcile.test_controller import Kafka, Rig
from tests.simulated.orders import KEY, Orders

UP, DOWN = {"group.version": 1}, {"group.version": 0}
CONSENT = "group.version:1->0"
CONSENTS = frozenset({CONSENT})


def waiting(levels: dict[str, int], begin: dict[str, int], **how: object) -> tuple[Cluster, Store]:
    """A plan stands, and waits for its owner to continue."""
    cluster = Cluster({"metadata.version": 27, **begin})
    store = Store(cluster, {})
    store.wanted = replace(Wanted(levels, suspend=True), **how)  # type: ignore[arg-type]
    assert isinstance(run(cluster, store).decision, Held)
    assert "plan" in store.status
    return cluster, store


def resumes(store: Store, **how: object) -> None:
    store.wanted = replace(store.wanted, suspend=False, **how)  # type: ignore[arg-type]


def approve(store: Store) -> str:
    approval: str = store.status["plan"]["hash"]
    store.wanted = replace(store.wanted, approvals=frozenset({approval}))
    return approval


def stalled(last: Reconciliation) -> Reason:
    assert isinstance(last.decision, Stalled), last.decision
    return last.decision.reason


def held(last: Reconciliation) -> Reason:
    assert isinstance(last.decision, Held), last.decision
    assert last.decision.condition is not None, last.decision
    assert last.decision.condition[0] is Condition.APPROVAL_REQUIRED
    return last.decision.condition[1]


# --- moved between two readings ---


def test_a_consent_is_void_once_its_downgrade_was_carried_out_and_taken_back_by_hand_between_two_readings() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []
    assert store.status["spentConsents"] == [CONSENT]
    resumes(store, consents=frozenset())
    run(cluster, store)
    resumes(store, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_an_approval_is_void_once_its_change_was_carried_out_and_taken_back_by_hand_between_two_readings() -> None:
    cluster, store = waiting(UP, {}, policy=ApprovalPolicy.ALWAYS)
    first = approve(store)
    assert cluster.move("group.version", 1)
    assert cluster.move("group.version", 0)
    resumes(store)
    assert held(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []
    assert store.status["plan"]["hash"] != first
    assert store.status["changeCount"] == 1
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_also_where_the_operator_looks_again_while_the_level_is_where_the_document_wants_it() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS, on_drift=OnDrift.CORRECT)
    assert cluster.move("group.version", 0)
    assert isinstance(run(cluster, store).decision, Held | Done)
    assert store.status["spentConsents"] == [CONSENT]
    assert cluster.move("group.version", 1)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


def test_moves_of_another_feature_void_nothing() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("transaction.version", 2)
    assert cluster.move("transaction.version", 0)
    resumes(store)
    assert isinstance(run(cluster, store).decision, Done)


@pytest.mark.parametrize("how", ["answered", "lost"])
def test_an_own_step_is_no_foreign_move_however_its_outcome_was_learnt(how: str) -> None:
    both = {"group.version": 1, "transaction.version": 2}
    cluster, store = waiting(both, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    if how == "lost":
        update = cluster.update

        async def loses(change: UpdateFeature) -> Outcome:
            await update(change)
            return OutcomeUnknown("EOF")

        cluster.update = loses  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)
    assert [one["result"] for one in store.status["history"]] == ["Applied", "Applied"]
    assert len(cluster.sent) == 2


def test_what_came_beside_the_own_step_voids_what_is_left_of_the_plan() -> None:
    cluster, store = waiting({"group.version": 1, "transaction.version": 2}, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    once(cluster, store)  # group.version is raised, and not read back yet
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    assert held(run(cluster, store)) is Reason.PLAN_CHANGED
    assert [str(one) for one in cluster.sent] == ["group.version 0 -> 1"]


def test_a_level_that_was_raised_by_hand_between_two_readings_may_be_downgraded_by_a_new_consent() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 1)
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_a_consent_whose_change_the_log_shows_is_void_also_where_no_plan_was_made_yet() -> None:
    """The document came while the operator was away, and so did what it asks for, and its end."""
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    assert isinstance(run(cluster, store).decision, Done)
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


@pytest.mark.parametrize("document", ["waits", "is new"])
def test_a_status_out_of_a_backup_does_not_make_a_used_consent_good_again(document: str) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    store.wanted = Wanted(
        DOWN if document == "waits" else UP, consents=CONSENTS, suspend=True, on_drift=OnDrift.CORRECT
    )
    run(cluster, store)
    backup = store.status
    resumes(store, levels=DOWN)
    assert isinstance(run(cluster, store).decision, Done)
    assert store.status["spentConsents"] == [CONSENT]
    assert cluster.move("group.version", 1)
    store.status = backup
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 1


def test_where_the_log_is_denied_nothing_is_known_of_moves_and_none_is_held_against_us_later() -> None:
    both = {"group.version": 1, "transaction.version": 2}
    cluster, store = waiting(both, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    cluster.reach(Access(cluster_action=False))
    once(cluster, store)
    assert len(cluster.sent) == 1
    once(cluster, store)
    cluster.reach(Access())
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_a_quiet_resource_writes_nothing_though_its_log_continues() -> None:
    cluster, store = waiting(UP, {})
    writes, position = store.writes, store.status["logPosition"]
    for _ in range(5):
        asyncio.run(cluster.sleep(60))
        run(cluster, store)
    assert (store.writes, store.status["logPosition"]) == (writes, position)


def test_an_open_step_keeps_the_position_where_it_was_sent() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    at = store.status["intents"][0]["offset"]
    assert store.status["logPosition"]["offset"] == at
    store.wanted = replace(store.wanted, mode=Mode.OBSERVE)
    cluster.shows = without_quorum
    once(cluster, store)
    assert "intents" in store.status
    assert store.status["logPosition"]["offset"] == at


def without_quorum(seen: Readings) -> Readings:
    """A leader whose followers are not known."""
    unknown = Failure(FailureKind.TIMED_OUT, "DescribeQuorum", "no answer")
    return seen._replace(probe=replace(seen.probe, quorum=unknown))


def of_log(seen: Readings, change: Callable[[Image], Image]) -> Readings:
    assert not isinstance(seen.log, Failure)
    return seen._replace(log=replace(seen.log, image=change(seen.log.image)))


@pytest.mark.parametrize("mode", Mode)
def test_a_used_consent_stays_used_whatever_the_mode_is_meanwhile(mode: Mode) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    store.wanted = Wanted(DOWN, consents=CONSENTS, on_drift=OnDrift.CORRECT)
    assert isinstance(run(cluster, store).decision, Done)
    store.wanted = replace(store.wanted, mode=mode)
    run(cluster, store)
    assert cluster.move("group.version", 1)
    run(cluster, store)
    assert store.status["spentConsents"] == [CONSENT]
    store.wanted = replace(store.wanted, mode=Mode.APPLY)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 1


def test_all_changes_are_validated_together_and_none_vouches_for_another() -> None:
    """Kafka of the controller does not support the second of them."""
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {"group.version": 1, "transaction.version": 2})
    asked: list[tuple[str, ...]] = []
    validate = cluster.validate

    async def validated(changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        asked.append(tuple(change.feature for change in changes))
        verdict = await validate(changes, directly=directly)
        refused = any(change.feature == "transaction.version" for change in changes)
        return DryRunRejected(95, "transaction.version: no") if refused else verdict

    cluster.validate = validated  # type: ignore[method-assign]
    assert stalled(once(cluster, store)) is Reason.CONTROLLER_REJECTED
    assert asked == [("group.version", "transaction.version")]
    assert cluster.sent == []


# --- of what lies before the reading ---


def reading_from(cluster: Cluster) -> None:
    """A new process begins with a snapshot of just now."""

    former = FormerLevels({}, cluster.world.image.offset, 0)

    def forgetting(image: Image) -> Image:
        assert image.finalized is not None
        return replace(image, finalized=replace(image.finalized, former=former))

    cluster.shows = lambda seen: of_log(seen, forgetting)


def test_the_log_is_read_from_where_the_status_ends_where_a_snapshot_hides_what_happened() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    reading_from(cluster)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


def test_while_that_cannot_be_read_nothing_is_sent_and_the_position_stays() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    position = store.status["logPosition"]
    asyncio.run(cluster.sleep(60))
    reading_from(cluster)
    resumes(store)
    failure = Failure(FailureKind.TIMED_OUT, "metadata log", "no answer")

    async def fails(offset: int, epoch: int) -> EarlierMoves | Failure:
        assert {"offset": offset, "epoch": epoch} == position
        return failure

    working, cluster.moves_since = cluster.moves_since, fails  # type: ignore[method-assign]
    for _ in range(3):
        last = once(cluster, store)
        assert isinstance(last.decision, Wait)
        assert last.decision.message.endswith("since the status was written: metadata log: no answer")
    assert (cluster.sent, store.status["logPosition"]) == ([], position)
    cluster.moves_since = working  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)


def test_it_is_not_read_where_nothing_depends_on_it() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    run(cluster, store)
    begins = store.status["logPosition"]["offset"]
    asyncio.run(cluster.sleep(60))
    reading_from(cluster)

    async def later(offset: int, epoch: int) -> EarlierMoves | Failure:
        assert offset > begins
        return EarlierMoves()

    cluster.moves_since = later  # type: ignore[method-assign]
    resumes(store, levels=UP)
    assert isinstance(run(cluster, store).decision, Done)


# --- first contact ---


@pytest.mark.parametrize("policy", ApprovalPolicy)
def test_at_a_first_contact_a_downgrade_needs_an_approval_by_hash_under_every_policy(policy: ApprovalPolicy) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = Wanted(DOWN, consents=CONSENTS, policy=policy)
    last = run(cluster, store)
    assert held(last) is Reason.PLAN_PENDING
    assert isinstance(last.decision, Held)
    assert store.status["unverifiedConsents"] == [CONSENT]
    assert held(run(cluster, store)) is Reason.PLAN_PENDING  # and is no less one at the second
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_it_says_why() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = Wanted(DOWN, consents=CONSENTS)
    last = run(cluster, store)
    assert isinstance(last.decision, Held)
    told = "; it is unknown whether consent 'group.version:1->0' was already used: it is older than the status"
    assert last.decision.message.endswith(told)


def test_a_consent_that_is_written_after_the_first_contact_is_a_new_one() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = Wanted(DOWN)
    assert stalled(run(cluster, store)) is Reason.CONSENT_REQUIRED
    store.wanted = Wanted(DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def test_one_that_was_there_is_a_new_one_once_it_was_removed_and_written_again() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    for consents in (CONSENTS, frozenset[str]()):
        store.wanted = Wanted(DOWN, consents=consents)
        run(cluster, store)
    assert store.status["unverifiedConsents"] == []
    store.wanted = Wanted(DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_change_that_is_no_downgrade_needs_none() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {}, met=False)
    store.wanted = Wanted(UP, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def replaced(api: Orders) -> None:
    spec = api.spec
    api.server.delete(*KEY)
    api.create(**spec)


LOST: dict[str, Callable[[Orders], object]] = {
    "lost": lambda api: api.server.edit_status(*KEY, lambda one: one.pop("status")),
    "replaced by force": replaced,
}


@pytest.mark.parametrize("how", LOST)
async def test_a_resource_whose_status_is_gone_does_not_use_its_consent_a_second_time(how: str) -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 27, **UP})).met()
    levels = {"levels": [{"name": "group.version", "level": 0}]}
    rig.api.edit(features=levels, consents=[CONSENT], approval={"policy": "Never"})
    for _ in range(4):
        await rig.work()
    assert len(rig.kafka.sent) == 1
    assert rig.kafka.move("group.version", 1)
    LOST[how](rig.api)
    for again in (rig, Rig(rig.api, rig.kafka)):
        for _ in range(4):
            await again.work()
        assert rig.api.condition("ApprovalRequired")["reason"] == "PlanPending"
    assert len(rig.kafka.sent) == 1


# --- a log that came out of a backup ---


def restored(cluster: Cluster, store: Store, *, offset: int = 10_000, epoch: int = 0) -> None:
    """So much more of it was read before."""
    position = {"offset": offset, "epoch": epoch}
    store.status = {**store.status, "logPosition": position}


def acceptance(cluster: Cluster) -> str:
    return f"{cluster.world.cluster_id}@{cluster.world.image.epoch}"


def accept(store: Store, what: str) -> None:
    """By the annotation."""
    metadata = {"annotations": {"kafkafeatures.dev/accept-restored-log": what}}
    store.server.edit("ns", "name", lambda one: one["metadata"].update(metadata))


def test_a_log_that_ends_before_what_was_read_stops_everything_until_a_person_accepts_it() -> None:
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
    accept(store, f"{cluster.world.cluster_id}@77")
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    assert cluster.sent == []
    accept(store, acceptance(cluster))
    run(cluster, store)
    assert cluster.sent == []
    assert store.status["spentConsents"] == [CONSENT]  # what was used is not known
    assert store.status["logPosition"]["offset"] < 10_000
    resumes(store, consents=frozenset(), approvals=frozenset())
    run(cluster, store)
    resumes(store, consents=CONSENTS)
    assert held(run(cluster, store)) is Reason.PLAN_PENDING
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_log_of_an_older_epoch_is_another_log_however_far_it_goes() -> None:
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
    assert [one["result"] for one in store.status["history"]] == ["Unverified", "Applied"]


def test_what_this_process_read_counts_also_where_no_status_was_written_since() -> None:
    (cluster, store), clocks = waiting(UP, {}), Clocks()
    position = store.status["logPosition"]
    asyncio.run(cluster.sleep(600))
    clocks.reconcile(cluster, store)
    assert store.status["logPosition"] == position
    cluster.shows = lambda seen: of_log(seen, lambda image: replace(image, offset=position["offset"] + 1))
    assert stalled(clocks.reconcile(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    clocks.restart()
    assert isinstance(clocks.reconcile(cluster, store).decision, Done | Held)


def test_a_restored_log_that_went_on_past_its_former_end_stays_another_one() -> None:
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


def test_a_log_that_never_had_the_position_is_another_one_however_far_it_goes_by_now() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    reading_from(cluster)
    restored(cluster, store, offset=3, epoch=0)

    async def parted(offset: int, epoch: int) -> EarlierMoves | Failure:
        return EarlierMoves(restored=True)

    cluster.moves_since = parted  # type: ignore[method-assign]
    assert stalled(once(cluster, store)) is Reason.CLUSTER_ID_MISMATCH
    accept(store, acceptance(cluster))
    assert isinstance(run(cluster, store).decision, Done)
