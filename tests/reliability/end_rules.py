"""Rules of the end of a history, checked on its record. It imports nothing of the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.reliability.facts import OPERATOR, Facts, condition
from tests.reliability.records import Asked, Calmed, Looked, Moved, Sent, Stored
from tests.reliability.violations import Violation

CORRECTIONS, HOUR = 2, 3600.0
"""How many foreign changes of one level are corrected, and within how many seconds; what comes then is a person's."""


def it_settles_and_rests(facts: Facts) -> Iterator[Violation]:
    """Once faults stop, everything is in sync in bounded time; from then on nothing is sent and nothing written."""
    over = next((each for each in facts.of_kind(Calmed) if each[1].over), None)
    if over is None:
        return
    place, calmed = over
    latest = {
        uid: max((each for each in versions if each[0] < place), default=versions[0], key=lambda each: each[0])[1]
        for uid, versions in facts.versions.items()
    }
    ages = {uid: (latest[uid].object["metadata"]["creationTimestamp"], uid) for uid in calmed.wants}
    for uid, levels in calmed.wants.items():
        cluster_id, version = calmed.cluster_of[uid], latest[uid]
        owner = min((ages[one], one) for one in calmed.wants if calmed.cluster_of[one] == cluster_id)[1]
        ready = condition(version, "Ready")
        if owner != uid:
            if ready.get("reason") != "DuplicateOwner":
                yield Violation("settles", version.at, f"{uid} does not own its cluster: {dict(ready)}")
            continue
        look = next(
            (one for one in reversed(facts.records[:place]) if isinstance(one, Looked) and one.uid == uid), None
        )
        there = {feature: look.levels.get(feature, 0) for feature in levels} if look else {}
        fought = ready.get("reason") == "ConflictDetected" and _was_fought_over(facts, version, calmed)
        driver = (version.spec.get("workload") or {}).get("driver")  # a person restarts only what a level asks for
        if driver == "StatefulSet" and look is not None and look.nodes is not None and look.nodes.behind:
            yield Violation("settles", version.at, f"{uid}: {sorted(look.nodes.behind)} are not rolled: {dict(ready)}")
        if (there != dict(levels) or ready.get("status") != "True") and not fought:
            yield Violation("settles", version.at, f"{uid} wants {dict(levels)} and has {there}: {dict(ready)}")
    for record in facts.records[place:]:
        if isinstance(record, Sent | Asked) or (isinstance(record, Stored) and record.by.startswith(OPERATOR)):
            yield Violation("rests", record.at, f"not at rest: {type(record).__name__} {record.uid}")
            return


def _was_fought_over(facts: Facts, version: Stored, calmed: Calmed) -> bool:
    """Whether others took one of the wanted levels away more often within the last hour than is corrected. It counts
    also where they change it once more before it is corrected (what was sent by then may have been overtaken), and
    where it is not known whether a correction was made and changed back at once.
    """
    uid = version.uid
    own = {act.sent.number for act in facts.acts if act.sent.uid == uid}
    history = version.status.get("history") or ()
    taken = Counter(str(one["target"]) for one in history if one["result"] == "Unverified")
    away: set[str] = set()
    for _, one in facts.of_kind(Moved):
        wanted = calmed.wants[uid].get(one.feature)
        if one.cluster_id != calmed.cluster_of[uid] or one.by in own or calmed.at - one.at >= HOUR:
            continue
        if one.after != wanted and (one.before == wanted or one.feature in away):
            away.add(one.feature)
            taken[one.feature] += 1
    return any(taken[feature] > CORRECTIONS for feature in calmed.wants[uid])
