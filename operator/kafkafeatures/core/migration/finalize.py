"""Rules before a migration is finalized, its only irreversible step: controllers are asked to lose the flag.

Pure. Called by the other modules of `core/migration/`.

The flag is `zookeeper.metadata.migration.enable` in the file of a controller. The migration ends for ever as soon as a
controller without the flag becomes the active controller. So controllers may lose it only with a consent, an approval,
a minimum time of dual write, equal metadata on both sides, and templates that were not changed too early.

The cluster counts as in dual write, and can go back, while the metadata log says MIGRATION and no controller has lost
its flag at the request of the present plan with its consent. If a controller lost its flag by accident, a blocker names
it, and the cluster still counts as in dual write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import MigrationStatus, PlanStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import Migration
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.past import LastRegistration
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.consents import already_used, spent_on_plan
from kafkafeatures.core.migration.contradictions import with_flags_first
from kafkafeatures.core.migration.edges import FINALIZE
from kafkafeatures.core.migration.memory import DualWrite
from kafkafeatures.core.migration.positions import FLAG, flag_of
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.words import format_left, format_span
from kraftlog.image import ZkMigrationState


def asked_before(
    migration: MigrationStatus | None, plan: PlanStatus | None, consents: frozenset[str], desired: Desired
) -> frozenset[int]:
    """Ids of controllers that this plan has asked to lose the flag, while its consent is still valid. `migration`,
    `plan`: from the status; None if that part of the status was lost, and then no id is returned.
    """
    if migration is None or desired is not Desired.FINALIZED:
        return frozenset()
    is_begun = ZK_FINALIZE in spent_on_plan(migration, plan, consents, desired)
    return frozenset(migration.asked_controllers) if is_begun else frozenset()


def asked_by(progress: object, flying: frozenset[int], restarted: int | None) -> tuple[int, ...]:
    """Ids of controllers that are asked to lose the flag, or have lost it on request. A controller that was asked and
    still has the flag, but is not being restarted, no longer counts.

    progress: a `MigrationProgress`; for any other value the result is empty.
    flying: nodes whose restart is not over.
    restarted: the node whose restart is being decided; None: none.
    """
    if not isinstance(progress, MigrationProgress) or progress.way is not FINALIZE:
        return ()
    ids = {id_ for id_ in progress.unflagging if id_ in flying or progress.facts.controllers.get(id_) is not True}
    return tuple(sorted(ids | ({restarted} if restarted is not None else set())))


def with_asked(status: Status, requested: tuple[int, ...]) -> Status:
    """The status with these controllers, to be written before they are asked."""
    if not requested or status.migration is None:
        return status
    return replace(status, migration=replace(status.migration, asked_controllers=requested))


CLOCK_JUMP = timedelta(minutes=1)
"""Difference between the time that has passed in the log and in this process above which a clock counts as set: the
clocks of controllers differ a little.
"""


def dual_write_of(
    registration: LastRegistration | None,
    current_time: datetime,
    monotonic_time: float,
    previous: DualWrite | None,
    migration: MigrationStatus | None,
) -> DualWrite | None:
    """Beginning and present duration of dual write, by the metadata log; None if the log cannot be read.

    registration: last registration of a broker in the log; dual write counts from there.
    current_time: wall clock of this process. The log's time is never taken to be later, as a controller's clock may
        have been set forward while no process read the log. If the log's time is behind, the registration counts as
        that much later, as that clock may be corrected afterwards.
    monotonic_time: seconds of the monotonic clock.
    previous: dual write as this process knew it; None: not at all.
    migration: status with the time of the same registration, which is lost once a snapshot replaces that part of the
        log.
    """
    if registration is None:
        return None
    log_delay = current_time - registration.read_at
    since = registration.at + (log_delay if log_delay > CLOCK_JUMP else timedelta(0))
    log_time = min(registration.read_at, current_time)
    dual_write = DualWrite(
        registration.offset, since, log_time, monotonic_time, monotonic_time, (log_time, monotonic_time)
    )
    if previous is not None and previous.offset == dual_write.offset:
        continued = replace(dual_write, since=previous.since, seen_at=previous.seen_at)
        earlier_log_time, earlier_monotonic_time = previous.measured_from
        ahead = (log_time - earlier_log_time) - timedelta(seconds=monotonic_time - earlier_monotonic_time)
        if ahead > CLOCK_JUMP:  # a controller's clock was set forward: the time that it skipped does not count
            return replace(continued, since=previous.since + ahead)
        return replace(continued, measured_from=previous.measured_from)
    if migration is not None and migration.dual_write_offset == dual_write.offset and migration.dual_write_since:
        return replace(dual_write, since=datetime.fromisoformat(migration.dual_write_since))
    return dual_write


def hold_left(wish: Migration, dual_write: DualWrite | None) -> timedelta:
    """Time for which dual write must still be kept; the whole time if its beginning is not known."""
    held_for = dual_write.held_for if dual_write is not None else timedelta(0)
    return wish.hold_dual_write_for - max(held_for, timedelta(0))


def soaking(progress: MigrationProgress, wish: Migration, dual_write: DualWrite | None) -> Wait | None:
    """Wait until dual write, from which there is a way back, was kept for as long as the document says. None once it
    was kept for so long, and if finalizing is not the next way.
    """
    remaining = hold_left(wish, dual_write)
    if progress.way is not FINALIZE or not is_in_dual_write(progress) or remaining <= timedelta(0):
        return None
    text = f"dual write is kept for {format_span(wish.hold_dual_write_for)}"
    if dual_write is None:
        return Wait(
            Reason.SOAKING, f"{text}; the metadata log does not say yet since when it is", delay=10.0, steady=True,
            subject="metadata log", remedy="bring back every broker and the active controller, whose log is read",
        )  # fmt: skip
    message = f"{text}, of which {format_left(remaining)} remain"
    return Wait(
        Reason.SOAKING, message, delay=min(10.0, remaining.total_seconds()), steady=True, is_dated=True,
        subject="spec.migration.holdDualWriteFor",
        remedy="wait until it is over, or shorten spec.migration.holdDualWriteFor",
    )  # fmt: skip


def is_in_dual_write(progress: MigrationProgress) -> bool:
    """Tell whether the cluster is in dual write: the log says so, and no controller was asked to lose its flag yet."""
    return progress.facts.state is ZkMigrationState.MIGRATION and not progress.is_finalizing


def may_begin(progress: MigrationProgress, blockers: tuple[Blocker, ...], *, soaks: bool, is_approved: bool) -> bool:
    """Tell whether controllers may lose the flag now, or are losing it already.

    blockers: all that prevents the next step.
    soaks: dual write must still be kept.
    is_approved: exactly this plan was approved.
    """
    if progress.way is not FINALIZE or not is_in_dual_write(progress):
        return progress.way is FINALIZE
    return not blockers and not soaks and is_approved


def unasked(progress: MigrationProgress, *, may_begin: bool) -> Iterator[Blocker]:
    """Blockers for controllers that lost the flag without a request: each finalizes the migration if it becomes the
    active controller. Yields nothing once controllers may lose it.
    """
    if is_in_dual_write(progress) and not may_begin:
        yield from without_the_flag(progress.observation, progress.facts.unflagged)


def without_the_flag(observation: Observation, ids: Iterable[int]) -> Iterator[Blocker]:
    """Blockers for controllers that lost the flag by accident, each with its remedy."""
    for id_ in ids:
        yield Blocker(
            BlockerKind.SETTING,
            f"controller {id_} runs without {FLAG}, and was not asked to: the migration ends, irreversibly, if it "
            "becomes the active controller",
            f"put the flag back on controller {id_} and restart it; restart no other node before that",
            nodes=tuple(node for node in observation.nodes if node.id == id_),
            reason=Reason.MIGRATION_BLOCKED,
        )


def dangers_left_open(observation: Observation) -> tuple[Blocker, ...]:
    """Blockers for controllers without the flag during a migration that no document asks for."""
    state = observation.zk_migration_state
    if not isinstance(state, Known) or state.value != ZkMigrationState.MIGRATION:
        return ()
    controllers = (node for node in observation.nodes if Role.CONTROLLER in node.roles)
    return tuple(without_the_flag(observation, (node.id for node in controllers if flag_of(node) is False)))


def withdrawal_reason(progress: object, blockers: tuple[Blocker, ...], soaks: Wait | None, *, is_approved: bool) -> str:
    """Reason why a person who was asked to restart a controller must not do so now: controllers may no longer lose the
    flag, or another controller may end the migration meanwhile. Empty if the request is still valid. It also stays
    valid if something is not known for a moment: a request that comes and goes would be carried out at the wrong time.
    """
    if not isinstance(progress, MigrationProgress) or not is_in_dual_write(progress):
        return ""
    if may_begin(progress, blockers, soaks=soaks is not None, is_approved=is_approved):
        return ""
    reasons = [blocker.message for blocker in without_the_flag(progress.observation, progress.facts.unflagged)]
    if progress.way is FINALIZE:
        reasons += [
            blocker.message for blocker in blockers if blocker.kind in (BlockerKind.METADATA, BlockerKind.CONSENT)
        ]
        reasons += [soaks.message] if soaks is not None else []
        reasons += [] if is_approved else ["its plan is not approved"]
    return next(iter(reasons), "")


def with_flags_first_in_dual_write(progress: MigrationProgress, remedy: str) -> str:
    """`remedy`, which makes another controller the active one. In dual write it begins with putting the flag back on
    controllers that have lost it: one of these would end the migration if it became the active one.
    """
    return with_flags_first(progress.facts, remedy) if is_in_dual_write(progress) else remedy


def unconsented(progress: MigrationProgress, consents: frozenset[str], spent: frozenset[str]) -> Iterator[Blocker]:
    """Blocker for the missing or used consent to finalize, which is needed until finalizing has begun. `spent`:
    consents that were used for something else.
    """
    if not is_in_dual_write(progress):
        return
    text = "finalizing the migration is irreversible"
    if ZK_FINALIZE not in consents:
        yield Blocker(BlockerKind.CONSENT, text, f"add {ZK_FINALIZE} to consents")
    elif ZK_FINALIZE in spent:
        yield Blocker(BlockerKind.CONSENT, text, already_used(ZK_FINALIZE), reason=Reason.CONSENT_SPENT)


def consent_used(progress: MigrationProgress) -> frozenset[str]:
    """Consent that the next step needs and uses; empty for none."""
    return frozenset({ZK_FINALIZE} if progress.way is FINALIZE and is_in_dual_write(progress) else ())
