"""What holds until a migration is finalized: a consent, a time of dual write, equal stores, an approval, old templates.

Pure. While the metadata log says MIGRATION, and no step of this plan to finalize was begun with its consent, the
cluster is in dual write and can go back, whatever single nodes say. A controller that lost its flag by accident is
named, and nothing is made of it. Asked by `core/migration/now.py`, `core/migration/checks.py` and
`core/migration/looking.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import MigrationStatus, PlanStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.migration.consents import already_used, held_by
from kafkafeatures.core.migration.edges import FINALIZE
from kafkafeatures.core.migration.place import Place
from kafkafeatures.core.migration.positions import FLAG
from kraftlog.image import ZkMigrationState

if TYPE_CHECKING:
    from kafkafeatures.core.migration.checks import Asked


def is_begun(
    migration: MigrationStatus | None, plan: PlanStatus | None, consents: frozenset[str], desired: Desired
) -> bool:
    """Whether a step of this plan to finalize was begun with its consent, which still stands. migration, plan: as the
    status has them; one that was lost remembers no step.
    """
    return desired is Desired.FINALIZED and ZK_FINALIZE in held_by(migration, plan, consents, desired)


def holds(place: Place) -> bool:
    """Whether everything holds as in dual write: the log says so, and no controller was asked to lose its flag yet."""
    return place.facts.state is ZkMigrationState.MIGRATION and not place.is_finalizing


def may_begin(place: Place, blockers: tuple[Blocker, ...], *, soaks: bool, is_approved: bool) -> bool:
    """Whether controllers may lose the flag now. blockers: all that prevents the next step; soaks: dual write has yet
    to be kept; is_approved: exactly this plan.
    """
    if place.way is not FINALIZE or not holds(place):
        return place.way is FINALIZE
    return place.is_begun or (not blockers and not soaks and is_approved)


def unasked(place: Place, *, may_begin: bool) -> Iterator[Blocker]:
    """Controllers without the flag that were not asked to lose it, each of which may end the migration."""
    if not holds(place) or may_begin:
        return
    for id_ in place.facts.unflagged:
        yield Blocker(
            BlockerKind.SETTING,
            f"controller {id_} runs without {FLAG}, and was not asked to: the migration ends, irreversibly, if it "
            "becomes the active controller",
            f"put the flag back on controller {id_} and restart it; restart no other node before that",
            nodes=tuple(node for node in place.seen.nodes if node.id == id_),
            reason=Reason.MIGRATION_BLOCKED,
        )


def without_ending(place: Place, remedy: str) -> str:
    """A remedy by which another controller becomes the active one, where one of them would end the migration."""
    if not holds(place) or not place.facts.unflagged:
        return remedy
    ids = ", ".join(map(str, place.facts.unflagged))
    return f"first put {FLAG} back on controller {ids}, which would end the migration; then {remedy}"


def finalizing_is_consented(asked: Asked) -> Iterator[Blocker]:
    """Nothing leads back from there. Once it has begun there is nothing left to consent to."""
    if not holds(asked.place):
        return
    text = "finalizing the migration is irreversible"
    if ZK_FINALIZE not in asked.consents:
        yield Blocker(BlockerKind.CONSENT, text, f"add {ZK_FINALIZE} to consents")
    elif ZK_FINALIZE in asked.spent:
        yield Blocker(BlockerKind.CONSENT, text, already_used(ZK_FINALIZE), reason=Reason.CONSENT_SPENT)


def consent_used(place: Place) -> frozenset[str]:
    """The consent without which the next step would not be taken."""
    return frozenset({ZK_FINALIZE} if place.way is FINALIZE and holds(place) else ())
