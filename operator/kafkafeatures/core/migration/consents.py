"""Consents of a migration, and what each of them covers.

Pure. Called by the other modules of `core/migration/`. A consent covers every step of one plan. It is spent before it
is used (`status.spentConsents`); `status.migration.consents` has the consents that the present plan has spent, and can
rely on until the plan is over or leads elsewhere, or the consent is removed from the document.

A consent to a loss on the way back covers exactly the loss that was shown when the consent was requested
(`status.migration.requested`). A request is recorded only while the document does not have the consent. So a consent
that was in the document before the loss was shown counts for nothing, and neither does any consent once that part of
the status is lost.
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
from kafkafeatures.core.engine.consents import spend
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.migration.not_desired import MIGRATION


class Consentable(Struct, frozen=True):
    """Blocker of the next step that a consent lifts.

    consent: name of the consent, as in `spec.consents`.
    about: exactly what is consented to, such as "controller 3001, controller 3002".
    blocker: the blocker without the consent.
    parts: parts of `about`, if a consent to these and further parts covers it as well; else empty.
    """

    consent: str
    about: str
    blocker: Blocker
    parts: frozenset[str] = frozenset()

    def is_for(self, request: ConsentRequest) -> bool:
        """Tell whether a consent that was given after this request lifts the blocker."""
        includes_parts = self.parts and self.parts.issubset(request.about.split(", "))
        return request.consent == self.consent and (request.about == self.about or bool(includes_parts))


RENEW = "remove it from consents, apply the document, then add it again"
"""Remedy for a consent that does not count."""


def remaining_blocker(
    consentable: Consentable, consents: Collection[str], spent: Collection[str], requested: Sequence[ConsentRequest]
) -> Blocker | None:
    """Blocker that remains; None if the document has the consent, it is unused, and it was given for exactly this.

    consents: consents of the document.
    spent: consents that were used for something else.
    requested: requests for consents, from the status.
    """
    if consentable.consent not in consents:
        return consentable.blocker
    if consentable.consent in spent:
        remedy = already_used(consentable.consent)
        return Blocker(BlockerKind.CONSENT, consentable.blocker.message, remedy, reason=Reason.CONSENT_SPENT)
    if not any(map(consentable.is_for, requested)):
        remedy = f"the consent {consentable.consent} does not count, as it was given before this was shown: {RENEW}"
        return replace(consentable.blocker, remedy=f"{consentable.blocker.remedy}; {remedy}")
    return None


def requested_now(
    previous: Sequence[ConsentRequest],
    consentables: Sequence[Consentable],
    consents: Collection[str],
    kept_consents: Collection[str],
    at: Stamp,
) -> tuple[ConsentRequest, ...]:
    """Requests for consents, for `status.migration.requested`.

    previous: requests in the status. consentables: losses that are shown now. consents: those of the document.
    kept_consents: consents whose request is kept although the loss is not shown now, as it may still exist. Requests
        for other losses that are not shown are dropped, so that they cannot cover the same loss later.
    """
    by_consent, requests = {request.consent: request for request in previous}, list[ConsentRequest]()
    for loss in consentables:
        old = by_consent.pop(loss.consent, None)
        new = ConsentRequest(consent=loss.consent, about=loss.about, since=at)
        if loss.consent in consents and (old is None or not loss.is_for(old)):
            requests += [old] if old is not None else []  # given for something else, or before it was asked for
        else:
            requests.append(old if old is not None and loss.is_for(old) else new)
    return (*requests, *(request for consent, request in by_consent.items() if consent in kept_consents))


def consents_of_plan(facts: StageInput, desired: Desired) -> frozenset[str]:
    """Consents that were spent on the present plan, if it still leads where the document wants the migration to go."""
    return spent_on_plan(facts.remembered.migration, facts.memory.plan, facts.desired.consents, desired)


def spent_on_plan(
    migration: MigrationStatus | None, plan: PlanStatus | None, consents: frozenset[str], desired: Desired
) -> frozenset[str]:
    """Consents that were spent on this plan, if it still leads to `desired`. `migration`, `plan`: from the status;
    `consents`: those of the document.
    """
    stages = [stage for stage in plan.stages if stage.kind == MIGRATION] if plan is not None else []
    if migration is None or [set(stage.target.values()) for stage in stages] != [{desired.value}]:
        return frozenset()
    return frozenset(migration.consents) & consents


def already_used(consent: str) -> str:
    """Remedy for a consent that was used for something else."""
    return f"the consent {consent} was already used: {RENEW}"


def with_spent(status: Status, consents: frozenset[str]) -> Status:
    """The status in which these consents are spent on the plan."""
    if not consents:
        return status
    migration = status.migration or MigrationStatus()
    migration = replace(migration, consents=tuple(sorted({*migration.consents, *consents})))
    return replace(spend(status, consents), migration=migration)


def with_consents_of_plan(status: Status, consents: frozenset[str], *, is_over: bool) -> Status:
    """The status with the consents that the plan has spent; none once the plan is over."""
    if status.migration is None:
        return status
    remaining = () if is_over else tuple(sorted(consents))
    return replace(status, migration=replace(status.migration, consents=remaining))
