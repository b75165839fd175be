"""No node is restarted to a release that breaks clients in use, where the document asks for that (policy Gate).

Pure. One of the checks of any restart (`core/roll/checks.py`), whatever it is for, and made again right before the
restart; levels are never held by it. A restart needs evidence, unless the release of its next image removed no API
version (Kafka 3.x and older), or the node runs that very release already. Evidence is for one release, so the release
of the next image has to be known and has to be spec.clientEvidence.target; if people restart the nodes, it is taken to
be that one. Where clients break, each version that they use needs a consent of its own; no consent stands in for
evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkafeatures.api.names import CLIENT_BREAKS, KAFKA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.clients.verdict import ApiVersion
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.engine.decisions import Wait, stalled_by
from kafkafeatures.core.facts.binaries import release_of, releases_with
from kafkafeatures.core.facts.client_standing import MOST_NAMED, ClientsStanding, standing_of
from kafkafeatures.core.facts.observation import Known, NodeState, Unknown
from kafkafeatures.core.facts.workloads import StatefulSet
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput
from kafkafeatures.core.roll.targets import Target
from kafkafeatures.core.words import first_of

FIRST_REMOVALS = (4, 0)
"""The first release that removed API versions (KIP-896)."""
POLL = 30.0
"""Seconds until evidence is looked at again: it is read beside reconciliations, every few minutes."""


class ClientBreaks(Struct, frozen=True):
    """Consents that the next restarts need. targets: StatefulSets and revisions to which these restarts lead."""

    consents: frozenset[str] = frozenset()
    targets: frozenset[Target] = frozenset()


def clients_survive(inputs: RestartCheckInput) -> Refusal | None:
    """No restart removes an API version that clients use, or may use."""
    required = inputs.desired.clients
    if required is None or not required.holds_roll:
        return None
    ids = tuple(_losing_versions(inputs))
    if not ids:
        return None
    other_release = next((release for id_ in ids if (release := next_release(inputs, id_)) != required.release), None)
    if other_release is not None:
        return _halt_for_other_release(inputs, ids, other_release)
    consents = _usable(inputs, targets_of(inputs, ids))
    standing = standing_of(inputs.observation, required.release, required.window, set(map(_version_of, consents)))
    if standing.reason is Reason.NO_BLOCKING_CLIENTS:
        return None
    return (
        _halt_for_clients(inputs, standing)
        if standing.reason is Reason.BLOCKING_CLIENTS
        else _wait_for_evidence(standing)
    )


def breaks_of(inputs: RestartCheckInput) -> ClientBreaks:
    """Consents that the next restart uses, if `clients_survive` allows one."""
    required, ids = inputs.desired.clients, tuple(_losing_versions(inputs))
    clients = inputs.observation.clients
    if required is None or not required.holds_roll or not ids or isinstance(clients, Unknown):
        return ClientBreaks()
    targets = targets_of(inputs, ids)
    used = {consent_of(use.api_version) for use in clients.value.check.breaking()}
    return ClientBreaks(frozenset(used & _usable(inputs, targets)), targets)


def consent_of(version: ApiVersion) -> str:
    """The consent that lets clients of this version break."""
    return f"{CLIENT_BREAKS}:{version.api}:{version.version}"


def _version_of(consent: str) -> ApiVersion:
    _, api, version = consent.split(":")
    return ApiVersion(api, int(version))


def targets_of(inputs: RestartCheckInput, ids: Iterable[int]) -> frozenset[Target]:
    """StatefulSets and revisions to which these nodes are restarted."""
    return frozenset(target for id_ in ids for target in inputs.targets_of(id_))


def _usable(inputs: RestartCheckInput, targets: frozenset[Target]) -> set[str]:
    """Consents of the document that no restart has used yet, or that restarts to each of these targets have used. None
    for a migration: it never leads to a release that removed versions.
    """
    spent, usable = inputs.remembered.status.spent_consents, set[str]()
    if inputs.permit.is_granted:
        return usable
    for consent in inputs.desired.consents:
        if not consent.startswith(f"{CLIENT_BREAKS}:") or consent != consent_of(_version_of(consent)):
            continue  # of another kind, or written in a way that would never be spent
        remembered = (inputs.revisions.get(target) for target in targets)
        is_of_this_roll = bool(targets) and all(
            entry is not None and consent in entry.client_breaks for entry in remembered
        )
        if state_of(consent, inputs.desired.consents, spent) is ConsentState.GIVEN or is_of_this_roll:
            usable.add(consent)
    return usable


# --- the release of the next image ---


def _losing_versions(inputs: RestartCheckInput) -> Iterator[int]:
    """Nodes that are to be restarted and may accept fewer API versions afterwards."""
    for id_ in sorted(inputs.fleet.needing):
        if id_ in inputs.flying and id_ not in inputs.stuck:
            continue
        release = next_release(inputs, id_)
        if not release or (_removed_versions(release) and not _runs_release(inputs, id_, release)):
            yield id_


def _removed_versions(release: str) -> bool:
    return tuple(map(int, release.split("."))) >= FIRST_REMOVALS


def _runs_release(inputs: RestartCheckInput, id_: int, release: str) -> bool:
    """Tell whether the live process of this node is of exactly this release, by what it supports."""
    node = inputs.node(id_)
    if node is None or node.state is not NodeState.LIVE or not isinstance(node.answer, Known):
        return False
    return releases_with(node.answer.value.supported) == (release,)


def next_release(inputs: RestartCheckInput, id_: int) -> str:
    """Release of the image that the node is restarted to, such as "4.1"; empty where it is not known. It counts as not
    known where the template's annotation names another release than a pod of the same revision reports, and where no
    such pod reports any and the annotation is older than the tag of the image (`_has_old_annotation`).
    """
    owner = inputs.fleet.sets.get(id_)
    if owner is None:
        required = inputs.desired.clients
        return required.release if required is not None and inputs.driver.asks_people else ""
    if _has_old_annotation(owner) and inputs.binaries.reported_by(owner.name) is None:
        return ""
    releases = releases_with(inputs.binaries.ranges.get(owner.name, {}))
    return releases[0] if len(releases) == 1 and owner.release in ("", *releases) else ""


def _has_old_annotation(owner: StatefulSet) -> bool:
    """Tell whether the tag of the image names a release that removed versions, and the annotation of the template an
    older one: people may have changed the image and left the annotation.
    """
    tagged = release_of({}, {}, owner.image)
    return bool(tagged and owner.release) and _removed_versions(tagged) and not _removed_versions(owner.release)


# --- refusals ---


def _halt_for_other_release(inputs: RestartCheckInput, ids: tuple[int, ...], release: str) -> Refusal:
    """Halt where the next image is of another release than spec.clientEvidence.target, or of one that is not known."""
    required = inputs.desired.clients
    required_release = required.release if required is not None else ""
    owners = sorted({owner.name for id_ in ids if (owner := inputs.fleet.sets.get(id_)) is not None})
    name = owners[0] if owners else inputs.title(ids[0])
    if release:
        text = (
            f"the new image of {name} is of Kafka {release}, and evidence about clients is for Kafka {required_release}"
        )
        remedy = f'set spec.clientEvidence.target to "{release}"'
    else:
        text = f"the Kafka release of the new image of {name} is not known, so it is not known which clients it breaks"
        remedy = f"set the template's annotation {KAFKA_VERSION} to the release that the image holds"
    return stalled_by(Blocker(BlockerKind.CLIENT, text, remedy, reason=Reason.ROLLOUT_HALTED))


def _halt_for_clients(inputs: RestartCheckInput, standing: ClientsStanding) -> Refusal:
    """Halt where clients would break without a consent."""
    check, consents = standing.check, inputs.desired.consents
    needed = sorted(consent_of(use.api_version) for use in check.breaking()) if check is not None else []
    spent = [consent for consent in needed if consent in inputs.remembered.status.spent_consents]
    used = [consent for consent in needed if consent in consents and consent in spent]
    text = f"no node is restarted: {standing.message}"
    if used:
        remedy = f"the consent {used[0]} was used by an earlier roll: remove it, apply the document, then add it again"
        return stalled_by(Blocker(BlockerKind.CLIENT, text, remedy, reason=Reason.CONSENT_SPENT))
    missing = [consent for consent in needed if consent not in consents]
    remedy = f"upgrade these clients, or if they may break, add {first_of(missing, MOST_NAMED)} to consents"
    if inputs.permit.is_granted:
        remedy = "upgrade these clients, or set spec.clientEvidence.policy to Report"
    return stalled_by(Blocker(BlockerKind.CLIENT, text, remedy))


def _wait_for_evidence(standing: ClientsStanding) -> Refusal:
    """Wait for evidence."""
    text = f"no node is restarted: whether clients break is not known: {standing.message}"
    remedy = f"{standing.remedy}; or set spec.clientEvidence.policy to Report"
    blocker = Blocker(BlockerKind.CLIENT, text, remedy)
    return Wait(
        Reason.PREFLIGHT, f"{text}; {remedy}", delay=POLL, blockers=(blocker,), subject="clients", remedy=remedy
    )
