"""Kafka's metadata log may come out of a backup: then what was remembered is of another log, and nothing is done until
a person accepts it. Held against the record of a history; it imports nothing of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.reliability.facts import OPERATOR, Facts
from tests.reliability.records import Asked, Looked, Restored, Sent, Stored
from tests.reliability.violations import Violation

ACCEPT = "kafkafeatures.dev/accept-restored-log"

Position = tuple[int, int]
"""Offset and epoch; -1 for an epoch that was never written down."""


def nothing_is_done_on_a_restored_log(facts: Facts) -> Iterator[Violation]:
    """After the first reading that can show that the log was restored, nothing is sent until a person accepts exactly
    this log, even if it grows beyond its former end.
    """
    for place, restored in facts.of_kind(Restored):
        for uid in facts.versions:
            found = _first_that_tells(facts, place, restored, uid)
            if found is None:
                continue
            until = _accepted(facts, found, restored, uid)
            for kind in (Sent, Asked):
                for at, sent in facts.of_kind(kind):
                    if sent.uid == uid and found < at < until:
                        yield Violation("restored log", sent.at, f"{sent}, and nobody has accepted the log")


def _first_that_tells(facts: Facts, place: int, restored: Restored, uid: str) -> int | None:
    """The place of the first look after it that shows that the log is another one; None where none does, before all
    that was known is of the new one.
    """
    read: dict[str, Position] = {}
    for at, look in facts.of_kind(Looked):
        if look.uid != uid or not look.log or look.cluster_id != restored.cluster_id:
            continue
        if at < place:
            read[look.process] = look.end, look.epoch
            continue
        last = _last(facts, place, at, uid)
        if last is None:
            return None
        told = last.status.get("logPosition") or {}
        position = (int(told.get("offset", -1)), int(told.get("epoch", -1)))
        intended = [int(one.get("offset", -1)) for one in last.status.get("intents") or ()]
        known = [position, *((one, -1) for one in intended)]
        known += [read[look.process]] if look.process in read else []
        if any(look.end < offset or look.epoch < epoch for offset, epoch in known):
            return at
        # The log continues in a later epoch: up to which offset it has the one of before is asked as well.
        if position[0] > restored.end and look.epoch > position[1] >= 0:
            return at
        return None  # it looks as if it had continued
    return None


def _last(facts: Facts, place: int, look: int, uid: str) -> Stored | None:
    """The last status before this reading; None if it was not bound to a cluster."""
    versions = [one for at, one in facts.versions[uid] if at < look]
    last = versions[-1] if versions else None
    if last is None or not last.status.get("clusterId") or facts.lost(uid, look) > place:
        return None
    return last


def _accepted(facts: Facts, since: int, restored: Restored, uid: str) -> int:
    """The place at which a document accepted this log; the end of the record if none did."""
    epochs = {one.epoch for at, one in facts.of_kind(Looked) if at >= since and one.cluster_id == restored.cluster_id}
    names = {f"{restored.cluster_id}@{epoch}" for epoch in epochs}
    given = (at for at, one in facts.versions[uid] if at > since and one.annotations.get(ACCEPT) in names)
    return next(given, len(facts.records))


def its_outcome_is_unknown(facts: Facts) -> Iterator[Violation]:
    """The outcome of a change sent before the restore is not reported as done or undone: the restored log cannot show
    it.
    """
    for place, restored in facts.of_kind(Restored):
        for uid, versions in facts.versions.items():
            found = _first_that_tells(facts, place, restored, uid)
            if found is None:
                continue
            before = [one for at, one in versions if at < found][-1]
            names = {
                f"{one.get('target')} {one.get('before')} -> {one.get('after')}"
                for one in before.status.get("intents") or ()
            }
            known = before.status.get("history") or ()
            until = next(
                (one.place for one in facts.acts if one.sent.uid == uid and one.place > found), len(facts.records)
            )
            for at, version in versions:
                if not found < at < until or not version.by.startswith(OPERATOR):
                    continue
                for one in version.status.get("history") or ():
                    if one not in known and one["action"] in names and one["result"] != "Unverified":
                        yield Violation("restored log", version.at, f"{one['action']} is told as {one['result']}")
                        return


LOG_RULES = (nothing_is_done_on_a_restored_log, its_outcome_is_unknown)
