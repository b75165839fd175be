"""Bounds on the size of a status: below 32 KiB as it is sent, whatever nodes and people write.

Pure. Called by `core/report/status.py` with every status that it makes. Texts are cut where they are read. If the
status is still too large, entries are dropped, the least important first. Fields and intents that another release of
the operator wrote are kept whole and do not count, so that they displace nothing; if they are so large that the API
server might refuse the status, a note says so.
"""

from __future__ import annotations

import json
import math

import msgspec

from kafkafeatures.api.client_status import ClientsStatus
from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.records import has_unknown, without_unknown
from kafkafeatures.api.status import (
    FeatureState,
    FeatureStatus,
    Intent,
    PlanStatus,
    RevisionStatus,
    RolloutStatus,
    Status,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.conditions import MAX_MESSAGE
from kafkafeatures.core.words import cut

MAX_STATUS = 28 * 1024
"""Most bytes of a status, without intents. The difference to 32 KiB is for what a step adds before the next status: an
intent, a consent, an entry of the history.
"""

MAX_ROLLING = 31 * 1024
"""Most bytes of a status together with its restarts in flight. It is more than `MAX_STATUS`: where up to 64 restarts
are counted already, one further step adds little.
"""

MAX_FOREIGN = 1024 * 1024
"""Most bytes written by other releases without a note about them. etcd takes 1.5 MiB for the whole resource."""


def bounded(status: Status, features: int) -> Status:
    """The status, shortened until it fits. `features`: number of features, also of those already left out.

    Dropped are, in this order:
    1. blockers, from the end; their total stays in the status; versions in use by clients, their senders, gaps of the
       evidence, and its problems;
    2. notes on what limits a roll;
    3. earlier revisions of a roll; one that is not listed counts as failed once a pod crashes on it;
    4. entries of the history, those with the longest messages first. Corrections of drift, whose number decides about
       the next one, have the shortest;
    5. nodes of the roll, which only people read if revisions are listed too, and effects of levels, which a command
       shows too;
    6. directories of nodes, which this process remembers too;
    7. features, from the end, unmanaged ones first: the others remember the levels that were reached.
    """
    restarts = _size_of_restarts(status.intents)  # in bytes
    while _too_large(status, restarts):
        if status.blockers or (status.clients is not None and _has_lists(status.clients)):
            status = _without_last(status)
        elif status.rollout is not None and status.rollout.notes:
            status = replace(status, rollout=replace(status.rollout, notes=status.rollout.notes[:-1]))
        elif status.rollout is not None and (earlier := _earlier_revision(status.rollout)) is not None:
            revisions = tuple(revision for revision in status.rollout.revisions if revision is not earlier)
            status = replace(status, rollout=replace(status.rollout, revisions=revisions))
        elif status.history:
            longest = max(status.history, key=lambda entry: len(entry.message))
            status = replace(status, history=tuple(entry for entry in status.history if entry is not longest))
        elif status.rollout is not None and status.rollout.nodes:
            status = replace(status, rollout=replace(status.rollout, nodes=""))
        elif status.plan is not None and (shorter := _without_effects(status.plan)) != status.plan:
            status = replace(status, plan=shorter)
        elif status.rollout is not None and (disks := status.rollout.disks):
            status = replace(status, rollout=replace(status.rollout, disks=disks[: len(disks) // 2]))
        elif status.features:
            status = replace(status, features=_without_least(status.features))
        else:
            break
    if len(status.features) < features:
        status = _noting(status, f" ({len(status.features)} of {features} features shown)")
    if status.intents or has_unknown(status):
        status = _noting(status, _of_foreign(status))
    return status


def _without_last(status: Status) -> Status:
    """The status without its last blocker, or where there is none, without the last of its clients."""
    if status.blockers or status.clients is None:
        return replace(status, blockers=status.blockers[:-1])
    clients = status.clients
    shorter = replace(
        clients, blockers=clients.blockers[:-1], gaps=clients.gaps[:-1], senders=clients.senders[:-1],
        problems=clients.problems[:-1],
    )  # fmt: skip
    return replace(status, clients=shorter)


def _has_lists(clients: ClientsStatus) -> bool:
    return bool(clients.blockers or clients.gaps or clients.senders or clients.problems)


def _without_effects(plan: PlanStatus) -> PlanStatus:
    """The plan with one line at its first step instead of all effects."""
    note = ("what levels do besides is too long for a status; kafkafeatures plan shows it",)
    steps = (replace(step, effects=() if number else note) for number, step in enumerate(plan.steps))
    return replace(plan, steps=tuple(steps))


def _earlier_revision(rollout: RolloutStatus) -> RevisionStatus | None:
    """The first revision of the roll that no pod still has to reach; None for none."""
    return next((revision for revision in rollout.revisions if not revision.left), None)


def _without_least(features: tuple[FeatureStatus, ...]) -> tuple[FeatureStatus, ...]:
    """The features without the least important one."""
    unmanaged = [at for at, feature in enumerate(features) if feature.state == FeatureState.UNMANAGED]
    last = unmanaged[-1] if unmanaged else len(features) - 1
    return (*features[:last], *features[last + 1 :])


def _size_of_restarts(intents: tuple[Intent, ...]) -> int:
    """Bytes of the restarts in flight, without fields of other releases; 0 where there are none."""
    sent_restarts = (
        sent_step
        for intent in intents
        if isinstance(sent_step := in_flight(intent), InFlight) and sent_step.step.is_followed
    )
    ours = tuple(replace(restart, intent=None).to_intent() for restart in sent_restarts)
    return _size(Status(intents=ours)) if ours else 0


def _too_large(status: Status, restarts: int) -> bool:
    """Tell whether the status does not fit, without what other releases wrote. `restarts`: bytes of those in flight."""
    ours = replace(status, intents=()) if status.intents else status
    ours = without_unknown(ours) if has_unknown(ours) else ours
    return _is_above(_size_at_most(ours), restarts) and _is_above(_size(ours), restarts)  # the fast bound first


def _is_above(size: float, restarts: int) -> bool:
    return size > MAX_STATUS or (restarts > 0 and size + restarts > MAX_ROLLING)


def _size_at_most(status: Status) -> float:
    """An upper bound of the size, much faster to compute than `_size`. This encoding has names that are at least as
    long, and default values too. It lacks the space after each separator, and a byte of UTF-8, or DEL, may become six
    bytes of ASCII: both are added.
    """
    try:
        text = _encoded(status)
        is_plain = text.isascii() and b"\x7f" not in text
        return len(text) + text.count(b",") + text.count(b":") if is_plain else 6 * len(text)
    except (ValueError, OverflowError):  # an unpaired surrogate, or a number beyond 64 bits
        return math.inf


_encoded = msgspec.json.Encoder(enc_hook=dict).encode


def _size(status: Status) -> int:
    return len(json.dumps(status.as_json()))  # ASCII, as it is sent


def _of_foreign(status: Status) -> str:
    """Note on the fields and intents that other releases wrote, if they are very large; else empty."""
    ours = without_unknown(replace(status, intents=())).as_json()
    document = status.as_json()
    foreign = {name: value for name, value in document.items() if value != ours.get(name)}
    size = len(json.dumps(foreign)) - len(json.dumps({name: ours[name] for name in foreign if name in ours}))
    if size <= MAX_FOREIGN:
        return ""
    names = cut(
        ", ".join((*status.unknown, *(name for name in foreign if name not in status.unknown))), MAX_MESSAGE // 4
    )
    return (
        f" (other releases wrote {size // 1024} KiB of this status: {names}; above 1.5 MiB the API server takes no "
        "status: run the release that needs these fields, or remove them)"
    )


def _noting(status: Status, note: str) -> Status:
    """The status with a note at the end of Ready's message, which is shortened to make room."""
    return replace(
        status,
        conditions=tuple(
            replace(condition, message=cut(condition.message, MAX_MESSAGE - len(note.encode())) + note)
            if note and condition.type == Condition.READY
            else condition
            for condition in status.conditions
        ),
    )
