"""Rules for the status and the end of a migration, checked against the true state. No import of the operator.

S11 and S16 of the operator's promises. Two of the rules of `migration_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.reliability.facts import OPERATOR, condition, writer
from tests.reliability.migration_facts import MigrationFacts, is_copied, modes
from tests.reliability.migration_records import FINALIZED, PRE_MIGRATION, Aimed, Mode, Truth
from tests.reliability.violations import Violation


def what_is_told_is_so(facts: MigrationFacts) -> Iterator[Violation]:
    """S16: the phases that nothing is left to do in, and Ready."""
    for uid, versions in facts.versions.items():
        told = ""
        for place, version in versions:
            phase = str((version.status.get("migration") or {}).get("phase", ""))
            is_new, told = phase != told, phase
            if not version.by.startswith(OPERATOR) or not is_new or phase not in _TOLD:
                continue
            looks = facts.looks(place, writer(version), uid)
            if looks and not any(_TOLD[phase](truth) for truth in looks):
                yield Violation("phase", version.at, f"{phase}, and the cluster was {looks[0]}")


_TOLD: dict[str, Callable[[Truth], bool]] = {
    "DualWrite": lambda truth: is_copied(truth) and modes(truth) == {Mode.KRAFT},
    "Finalized": lambda truth: truth.state == FINALIZED and modes(truth) == {Mode.KRAFT},
    "RolledBack": lambda truth: truth.offset is None and not truth.is_kraft and modes(truth) <= {Mode.PLAIN},
    "PreMigration": lambda truth: truth.state == PRE_MIGRATION and modes(truth) <= {Mode.PLAIN},
}

_ENDS: dict[str, Callable[[Truth], bool]] = {
    "DualWrite": lambda truth: truth.is_dual_write,
    "Finalized": lambda truth: (
        truth.state == FINALIZED and set(truth.controllers.values()) == {False} and modes(truth) == {Mode.KRAFT}
    ),
    "RolledBack": lambda truth: truth.is_in_zookeeper,
}


def it_ends_where_the_document_wants_it(facts: MigrationFacts) -> Iterator[Violation]:
    """Once faults have stopped, and a person does what the status asks for: there, and it says so."""
    for place, aim in facts.of_kind(Aimed):
        if not aim.over:
            continue
        version = [one for at, one in facts.versions[aim.uid] if at < place][-1]
        ready = condition(version, "Ready")
        if ready.get("status") != "True" or not _ENDS[aim.desired](aim.truth):
            yield Violation("settles", aim.at, f"{aim.desired} is wanted, and it is {aim.truth}: {dict(ready)}")
