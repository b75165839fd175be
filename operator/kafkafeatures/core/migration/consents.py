"""Consents of a migration: each is good for one plan, and there for every step of it.

Pure. One is spent before it is used (`status.spentConsents`), and `status.migration.consents` says that the plan that
is carried out has used it: so it holds until that plan leads elsewhere, is over, or the consent is taken back. Called
by `core/migration/now.py`.
"""

from __future__ import annotations

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import MigrationStatus, PlanStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.kind import Facts
from kafkafeatures.core.migration.none_wanted import MIGRATION


def held(facts: Facts, desired: Desired) -> frozenset[str]:
    """Consents that were spent on the plan which still stands."""
    return held_by(facts.remembered.migration, facts.memory.plan, facts.wanted.consents, desired)


def held_by(
    migration: MigrationStatus | None, plan: PlanStatus | None, consents: frozenset[str], desired: Desired
) -> frozenset[str]:
    """Consents that were spent on the plan which still stands. plan: of the status; consents: those of the document."""
    own = [stage for stage in plan.stages if stage.kind == MIGRATION] if plan is not None else []
    if migration is None or [set(stage.target.values()) for stage in own] != [{desired.value}]:
        return frozenset()
    return frozenset(migration.consents) & consents


def already_used(consent: str) -> str:
    """The remedy where a consent was used for something else."""
    return f"the consent {consent} was already used: remove it from consents, apply the document, then add it again"


def with_spent(status: Status, consents: frozenset[str]) -> Status:
    """The status once these are spent, and held by the plan."""
    if not consents:
        return status
    migration = status.migration or MigrationStatus()
    return replace(
        status,
        spent_consents=tuple(sorted({*status.spent_consents, *consents})),
        migration=replace(migration, consents=tuple(sorted({*migration.consents, *consents}))),
    )


def with_held(status: Status, consents: frozenset[str], *, is_over: bool) -> Status:
    """The status with the consents that the plan holds, of which none is left once it is over."""
    if status.migration is None:
        return status
    left = () if is_over else tuple(sorted(consents))
    return replace(status, migration=replace(status.migration, consents=left))
