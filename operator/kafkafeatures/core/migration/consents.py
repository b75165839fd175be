"""Consents of a migration. A consent is for one plan, and for every step of it. A consent to a loss on the way back is
for exactly the loss that was shown when it was asked for.

Pure. A consent is spent before it is used (`status.spentConsents`), and `status.migration.consents` says which plan has
used it. That plan can rely on it until the plan leads elsewhere or is over, or the consent is removed.
`status.migration.requested` says which consents were asked for, and for what. An entry is added only while the document
does not have the consent: so a consent that was always in the document counts for nothing, and none counts once that
part of the status is lost. Called by `core/migration/losses.py` and `core/migration/state.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ConsentRequest, MigrationStatus, PlanStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.migration.not_desired import MIGRATION


class Consentable(Struct, frozen=True):
    """Blocker of the next step that a consent lifts.

    consent: name of the consent.
    about: exactly what is consented to.
    blocker: the blocker without the consent.
    parts: the parts of `about`, if a consent to more parts includes one to these; else empty.
    """

    consent: str
    about: str
    blocker: Blocker
    parts: frozenset[str] = frozenset()

    def is_for(self, request: ConsentRequest) -> bool:
        """Tell whether a consent that was given after this request lifts the blocker."""
        includes_parts = self.parts and self.parts.issubset(request.about.split(", "))
        return request.consent == self.consent and (request.about == self.about or bool(includes_parts))


AGAIN = "remove it from consents, apply the document, then add it again"


def remaining_blocker(
    it: Consentable, consents: Collection[str], spent: Collection[str], requested: Sequence[ConsentRequest]
) -> Blocker | None:
    """Blocker that remains; None if the document has the consent, unused, and it was given for exactly this.

    consents: consents of the document.
    spent: consents that were used for something else.
    requested: requests for consents, from the status.
    """
    if it.consent not in consents:
        return it.blocker
    if it.consent in spent:
        remedy = already_used(it.consent)
        return Blocker(BlockerKind.CONSENT, it.blocker.message, remedy, reason=Reason.CONSENT_SPENT)
    if not any(map(it.is_for, requested)):
        remedy = f"the consent {it.consent} does not count, as it was given before this was shown: {AGAIN}"
        return replace(it.blocker, remedy=f"{it.blocker.remedy}; {remedy}")
    return None


def requested_now(
    previous: Sequence[ConsentRequest],
    consentables: Sequence[Consentable],
    consents: Collection[str],
    kept_consents: Collection[str],
    at: Stamp,
) -> tuple[ConsentRequest, ...]:
    """Requests for consents to be remembered.

    `kept_consents`: consents whose request is kept although the loss is not shown now, as it may still exist. Requests
    for other consents that are not shown are dropped, so that they cannot cover the same loss later.
    """
    by_consent, requests = {request.consent: request for request in previous}, list[ConsentRequest]()
    for it in consentables:
        old, new = by_consent.pop(it.consent, None), ConsentRequest(consent=it.consent, about=it.about, since=at)
        if it.consent in consents and (old is None or not it.is_for(old)):
            requests += [old] if old is not None else []  # for something else
        else:
            requests.append(old if old is not None and it.is_for(old) else new)
    return (*requests, *(request for consent, request in by_consent.items() if consent in kept_consents))


def held(facts: StageInput, desired: Desired) -> frozenset[str]:
    """Consents that were spent on the plan, if it still leads where the document does."""
    return held_by(facts.remembered.migration, facts.memory.plan, facts.desired.consents, desired)


def held_by(
    migration: MigrationStatus | None, plan: PlanStatus | None, consents: frozenset[str], desired: Desired
) -> frozenset[str]:
    """Consents that were spent on this plan, if it still leads to `desired`. `plan`: from the status; `consents`: those
    of the document.
    """
    stages = [stage for stage in plan.stages if stage.kind == MIGRATION] if plan is not None else []
    if migration is None or [set(stage.target.values()) for stage in stages] != [{desired.value}]:
        return frozenset()
    return frozenset(migration.consents) & consents


def already_used(consent: str) -> str:
    """Remedy if a consent was used for something else."""
    return f"the consent {consent} was already used: {AGAIN}"


def with_spent(status: Status, consents: frozenset[str]) -> Status:
    """The status in which these consents are spent on the plan."""
    if not consents:
        return status
    migration = status.migration or MigrationStatus()
    return replace(
        status,
        spent_consents=tuple(sorted({*status.spent_consents, *consents})),
        migration=replace(migration, consents=tuple(sorted({*migration.consents, *consents}))),
    )


def with_held(status: Status, consents: frozenset[str], *, is_over: bool) -> Status:
    """The status with the consents that the plan has used; none once it is over."""
    if status.migration is None:
        return status
    remaining = () if is_over else tuple(sorted(consents))
    return replace(status, migration=replace(status.migration, consents=remaining))
