"""What README and how-it-decides promise, held against the record of a history. It imports nothing of the operator.

Each rule is one function over the record: what the API server stored, what was true of a cluster when it was read, what
was sent to it, what its controllers wrote. What the operator says of itself counts only where a rule is about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from tests.reliability.records import Approved, Calmed, History, Looked, Moved, Record, Sent, Stored

OPERATOR = "kafkafeatures.dev/"
PAUSE, APPROVE = "kafkafeatures.dev/pause", "kafkafeatures.dev/approve"
KNOWS_OTHERS_WITHIN = 400.0
"""Seconds until a process has surely heard of another resource: a list, and a read of each."""

CHANGED = frozenset((1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))
"""Levels of metadata.version at which records were added: Kafka does not go back below them (MetadataVersion.java)."""
BUNDLES: Mapping[str, Mapping[str, int]] = {
    "4.0": {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
    "4.1": {
        "metadata.version": 27,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    },
    "4.2": {
        "metadata.version": 29,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    },
}


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule`: which promise was broken."""

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.3f} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Act:
    """An effect with the version of the resource that announced it, and the one before that. None: nothing did."""

    sent: Sent
    place: int
    begun: Stored | None
    before: Stored | None


Intent = tuple[str, int, int, str]


def intents(stored: Stored) -> tuple[Intent, ...]:
    """(feature, before, after, when) of each."""
    status = stored.status
    found = status.get("intents") or ([status["intent"]] if status.get("intent") else [])
    return tuple((one["target"], int(one["before"]), int(one["after"]), one["at"]) for one in found)


def desired(stored: Stored) -> dict[str, int]:
    """Levels that are named, and those of a release, which are lower bounds."""
    features = stored.spec.get("features") or {}
    return {one["name"]: int(one["level"]) for one in features.get("levels") or ()}


def bundle(stored: Stored) -> Mapping[str, int]:
    """Of a releaseVersion."""
    return BUNDLES.get((stored.spec.get("features") or {}).get("releaseVersion", ""), {})


def wants(stored: Stored, feature: str) -> int | None:
    """The level in either way."""
    return desired(stored).get(feature, bundle(stored).get(feature))


def applies(stored: Stored) -> bool:
    """Whether its owner lets it act at all."""
    held = stored.spec.get("suspend") or stored.annotations.get(PAUSE) == "true"
    return stored.spec.get("mode", "Apply") == "Apply" and not held


def irreversible(feature: str, before: int, after: int) -> bool:
    """Whether Kafka would refuse to undo it."""
    return feature == "metadata.version" and any(level in CHANGED for level in range(before + 1, after + 1))


def lossless(feature: str, before: int, after: int) -> bool:
    """Whether its undo is proved to lose nothing: a downgrade, or metadata.version where no record changed."""
    return after < before or (feature == "metadata.version" and not irreversible(feature, before, after))


def condition(stored: Stored, kind: str) -> Mapping[str, Any]:
    """Of the status; empty where it is absent."""
    return next((one for one in stored.status.get("conditions", ()) if one["type"] == kind), {})


class Facts:
    """The record, by resource and by effect."""

    def __init__(self, history: History) -> None:
        self.records: list[Record] = history.records
        self.versions: dict[str, list[tuple[int, Stored]]] = {}
        for place, record in enumerate(self.records):
            if isinstance(record, Stored):
                self.versions.setdefault(record.uid, []).append((place, record))

    def of_kind(self, kind: type[Any]) -> Iterator[tuple[int, Any]]:
        """With the place in the record."""
        return iter(self._by_kind.get(kind, ()))

    @cached_property
    def _by_kind(self) -> dict[type[Any], list[tuple[int, Any]]]:
        found: dict[type[Any], list[tuple[int, Any]]] = {}
        for place, record in enumerate(self.records):
            found.setdefault(type(record), []).append((place, record))
        return found

    @cached_property
    def moved_by(self) -> dict[int | None, list[tuple[int, Moved]]]:
        """By the number of an effect."""
        found: dict[int | None, list[tuple[int, Moved]]] = {}
        for place, moved in self.of_kind(Moved):
            found.setdefault(moved.by, []).append((place, moved))
        return found

    @cached_property
    def acts(self) -> list[Act]:
        """Every effect, with the intent that was written for it; no intent serves twice."""
        used: set[int] = set()
        found = []
        for place, sent in self.of_kind(Sent):
            begun = before = None
            for (_, earlier), (at, version) in zip(
                [(-1, None), *self.versions.get(sent.uid, [])], self.versions.get(sent.uid, []), strict=False
            ):
                if at > place:
                    break
                new = set(intents(version)) - (set(intents(earlier)) if earlier else set())
                wrote = (version.status.get("operator") or {}).get("instance", sent.process)
                fits = any(one[:3] == (sent.feature, sent.before, sent.after) for one in new)
                if fits and at not in used and version.by.startswith(OPERATOR) and wrote == sent.process:
                    begun, before, begun_at = version, earlier, at
            if begun is not None:
                used.add(begun_at)
            found.append(Act(sent, place, begun, before))
        return found

    def last_look(self, place: int, process: str, uid: str) -> Looked | None:
        """The last time that this process read a cluster for this resource, before that place."""
        for record in reversed(self.records[:place]):
            if isinstance(record, Looked) and record.uid == uid and record.process == process:
                return record
        return None

    def between(self, uid: str, since: float, until: float) -> list[Stored]:
        """Versions that were there at some time in between."""
        versions = [one for _, one in self.versions.get(uid, ())]
        first = max((at for at, one in enumerate(versions) if one.at <= since), default=0)
        return [one for one in versions[first:] if one.at <= until]


Rule = Callable[[Facts], Iterator[Violation]]


def the_intent_is_written_before_the_act(facts: Facts) -> Iterator[Violation]:
    """Also, one effect at a time, each announced."""
    for act in facts.acts:
        if act.begun is None:
            yield Violation("intent before act", act.sent.at, f"nothing announced {act.sent}")


def the_effect_log_tells_of_every_effect(facts: Facts) -> Iterator[Violation]:
    """Nothing leaves the process by another way."""
    for _, sent in facts.of_kind(Sent):
        if not sent.logged:
            yield Violation("effect log", sent.at, f"{sent} is not in it")


def nothing_is_done_that_the_owner_does_not_ask_for(facts: Facts) -> Iterator[Violation]:
    """Mode, suspend, pause, levels: as they were when the intent was stored, which names the very version."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent, wanted = act.sent, desired(act.begun)
        if not applies(act.begun):
            yield Violation("held back", sent.at, f"{sent} while it was suspended, paused or observed")
        elif sent.feature in wanted and wanted[sent.feature] != sent.after:
            yield Violation("asked for", sent.at, f"{sent}, but {wanted[sent.feature]} is asked for")
        elif sent.feature not in wanted and not (sent.before < sent.after == bundle(act.begun).get(sent.feature)):
            yield Violation("asked for", sent.at, f"{sent}, which nobody asked for")


def no_downgrade_without_a_consent_and_none_twice(facts: Facts) -> Iterator[Violation]:
    """Named exactly, used once, spent before it is used."""
    used: dict[tuple[str, str], Act] = {}
    for act in facts.acts:
        sent = act.sent
        if act.begun is None or sent.after >= sent.before:
            continue
        consent = f"{sent.feature}:{sent.before}->{sent.after}"
        if consent not in (act.begun.spec.get("consents") or ()):
            yield Violation("consent", sent.at, f"{sent} without {consent}")
        if act.before is not None and consent in (act.before.status.get("spentConsents") or ()) and not _closes(act):
            yield Violation("consent", sent.at, f"{consent} was spent already")
        if consent not in (act.begun.status.get("spentConsents") or ()):
            yield Violation("consent", sent.at, f"{consent} was not spent before it was used")
        earlier = used.get((sent.uid, consent))
        if earlier is not None and earlier.begun is not None:
            kept = all(
                consent in (one.spec.get("consents") or ())
                for one in facts.between(sent.uid, earlier.begun.at, sent.at)
            )
            if kept and earlier.sent.number in facts.moved_by:
                yield Violation("consent", sent.at, f"{consent} was used by effect {earlier.sent.number} already")
        used[sent.uid, consent] = act


def _closes(act: Act) -> bool:
    """Whether the version that announces it also closes an earlier try of the same: then its consent came back."""
    return bool(act.before and intents(act.before))


def never_on_a_wrong_cluster(facts: Facts) -> Iterator[Violation]:
    """Not on another one than its status is bound to, than its document names, than it ever changed before."""
    changed: dict[str, str] = {}
    for act in facts.acts:
        sent = act.sent
        bound = {changed.setdefault(sent.uid, sent.cluster_id)}
        if act.begun is not None:
            bound.add(act.begun.spec["cluster"].get("clusterId") or sent.cluster_id)
            bound.add(act.begun.status.get("clusterId", ""))
        if act.before is not None:
            bound.add(act.before.status.get("clusterId") or sent.cluster_id)
        if bound != {sent.cluster_id}:
            yield Violation("right cluster", sent.at, f"{sent}, but it is bound to {sorted(map(str, bound))}")


def what_is_open_stays_alone(facts: Facts) -> Iterator[Violation]:
    """Nothing else moves a feature while an earlier effect on it may still come true."""
    for act in facts.acts:
        for place, moved in facts.moved_by.get(act.sent.number, ()):
            for other in facts.acts:
                same = (other.sent.uid, other.sent.cluster_id) == (act.sent.uid, act.sent.cluster_id)
                if same and act.place < other.place < place and not _forgotten(facts, act, other):
                    text = f"effect {act.sent.number} came true after {other.sent} was sent"
                    yield Violation("one at a time", moved.at, text)


def _forgotten(facts: Facts, act: Act, other: Act) -> bool:
    """Whether somebody else than an operator took the intent out of the status in between: a person, or a schema."""
    versions = facts.between(act.sent.uid, act.sent.at, other.sent.at)
    return any(intents(a) and not intents(b) and not b.by.startswith(OPERATOR) for a, b in pairwise(versions))


def what_became_of_an_effect_is_told_as_it_was(facts: Facts) -> Iterator[Violation]:
    """A history entry that says it was left undone, or done, is true for ever."""
    by_begin = {id(act.begun): act for act in facts.acts if act.begun is not None}
    for versions in facts.versions.values():
        open_act: Act | None = None
        for (_, earlier), (place, version) in pairwise(versions):
            open_act = by_begin.get(id(earlier), open_act)
            gone = intents(earlier) and set(intents(earlier)) != set(intents(version))
            kept = {one[3] for one in intents(earlier)} & {one[3] for one in intents(version)}
            if not gone or kept or not version.by.startswith(OPERATOR) or open_act is None:
                continue
            sent, history = open_act.sent, version.status.get("history") or [{}]
            open_act = None
            said = str(history[-1].get("result", "")).lower()
            if sent.feature not in str(history[-1].get("action", "")) or history == earlier.status.get("history"):
                continue
            moved = [one for at, one in facts.moved_by.get(sent.number, ())]
            if moved and any(
                word in said for word in ("not applied", "notapplied", "not sent", "notsent", "refused", "rejected")
            ):
                yield Violation("outcome", version.at, f"{sent} is told as {said!r}, but it was applied")
            if said in ("read back", "applied") and not any(
                look.cluster_id == sent.cluster_id and look.levels.get(sent.feature, 0) == sent.after
                for at, look in facts.of_kind(Looked)
                if open_place(facts, sent) < at < place
            ):
                yield Violation("outcome", version.at, f"{sent} is told as {said!r}, but the level was never read")


def open_place(facts: Facts, sent: Sent) -> int:
    """Where in the record an effect is."""
    return next(place for place, one in facts.of_kind(Sent) if one is sent)


def every_node_supports_what_is_sent(facts: Facts) -> Iterator[Violation]:
    """Every registered node and every voter, live or not, when the cluster was last read."""
    for act in facts.acts:
        sent = act.sent
        look = facts.last_look(act.place, sent.process, sent.uid)
        if look is None:
            yield Violation("preflight", sent.at, f"{sent} without a look")
            continue
        low, high = look.ranges.get(sent.feature, (0, 0))
        if not low <= sent.after <= high:
            yield Violation("preflight", sent.at, f"{sent}, but all nodes support {low}-{high}")


def an_owner_acts_alone(facts: Facts) -> Iterator[Violation]:
    """The oldest Apply resource of a cluster, by creation and uid."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent = act.sent
        age = (act.begun.object["metadata"]["creationTimestamp"], sent.uid)
        for uid in sorted(facts.versions):
            there = facts.between(uid, act.begun.at - KNOWS_OTHERS_WITHIN, act.begun.at)
            older = there and (there[0].object["metadata"]["creationTimestamp"], uid) < age
            if (
                older
                and there[0].at <= act.begun.at - KNOWS_OTHERS_WITHIN
                and all(
                    one.kind != "DELETED"
                    and "deletionTimestamp" not in one.object["metadata"]
                    and one.spec.get("mode", "Apply") == "Apply"
                    and one.status.get("clusterId") == sent.cluster_id
                    for one in there
                )
            ):
                yield Violation("owner", sent.at, f"{sent}, but the older {uid} owns the cluster")


def ready_means_read(facts: Facts) -> Iterator[Violation]:
    """Every level was read, with an active controller and a quorum, for this generation."""
    for uid, versions in facts.versions.items():
        for (_, earlier), (place, version) in zip([(-1, None), *versions], versions, strict=False):
            ready = condition(version, "Ready")
            if ready.get("status") != "True" or ready.get("reason") != "InSync" or not version.by.startswith(OPERATOR):
                continue
            if earlier is not None and condition(earlier, "Ready") == ready:
                continue
            instance = (version.status.get("operator") or {}).get("instance", "")
            look = facts.last_look(place, instance, uid) if instance else None
            if not instance:
                continue  # handed over: who wrote it is not told
            if look is None or not look.quorum or look.cluster_id != version.status.get("clusterId"):
                yield Violation("ready", version.at, f"Ready without a read quorum: {look}")
                continue
            named, there = desired(version), look.levels
            wrong = {name: level for name, level in named.items() if there.get(name, 0) != level}
            wrong |= {
                name: level
                for name, level in bundle(version).items()
                if name not in named and there.get(name, 0) < level
            }
            if ready.get("observedGeneration") == version.generation and wrong:
                yield Violation("ready", version.at, f"Ready, but {wrong} is not what is there: {dict(look.levels)}")
            if intents(version):
                yield Violation("ready", version.at, "Ready with an effect in flight")


def generations_only_grow(facts: Facts) -> Iterator[Violation]:
    """And none is told of before it was there."""
    for versions in facts.versions.values():
        newest = 0
        for _, version in versions:
            observed = int(version.status.get("observedGeneration", 0))
            if version.by.startswith(OPERATOR) and (observed < newest or observed > version.generation):
                yield Violation("generation", version.at, f"{observed} after {newest}, of {version.generation}")
            newest = max(newest, observed)


def approvals_are_for_one_plan(facts: Facts) -> Iterator[Violation]:
    """Exactly the plan that a person saw; used up by being completed or withdrawn."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent, policy = act.sent, (act.begun.spec.get("approval") or {}).get("policy", "IrreversibleOnly")
        plan = (act.begun.status.get("plan") or {}).get("hash", "")
        in_spec = (act.begun.spec.get("approval") or {}).get("planHash")
        given = {in_spec, act.begun.annotations.get(APPROVE)} - {None}
        if given and not any(plan.startswith(one) for one in given):
            yield Violation("approval", sent.at, f"{sent} of plan {plan}, not {sorted(map(str, given))}")
        computed = sent.feature not in desired(act.begun)
        unsafe = not lossless(sent.feature, sent.before, sent.after)
        if not (policy == "Always" or (policy == "IrreversibleOnly" and computed and unsafe)):
            continue
        approved = [
            one
            for place, one in facts.of_kind(Approved)
            if place < act.place and one.uid == sent.uid and one.hash == plan and one.hash in given
        ]
        if not approved:
            yield Violation("approval", sent.at, f"{sent} of plan {plan}, which nobody approved")
            continue
        if f"{sent.feature} {sent.before} -> {sent.after}" not in approved[-1].steps:
            yield Violation("approval", sent.at, f"{sent}, but approved was {approved[-1].steps}")
        for one in facts.between(sent.uid, approved[-1].at, act.begun.at):
            if wants(one, sent.feature) != sent.after:
                yield Violation("approval", sent.at, f"{sent} was withdrawn since its plan was approved")
                break
        moved = any(
            one.sent.number in facts.moved_by and one.place < act.place
            for one in facts.acts
            if one.sent.uid == sent.uid and one.sent.at > approved[-1].at
            if (one.sent.feature, one.sent.after) == (sent.feature, sent.after)
        )
        if moved:
            yield Violation("approval", sent.at, f"{sent} was carried out already since its plan was approved")


def drift_is_corrected_only_where_that_is_asked_for(facts: Facts) -> Iterator[Violation]:
    """A level that was reached and that somebody else changed."""
    for act in facts.acts:
        if act.begun is None or (act.begun.spec.get("drift") or {}).get("onDrift") == "Correct":
            continue
        sent = act.sent
        reached: Stored | None = None
        for place, version in facts.versions[sent.uid]:
            if version is act.begun:
                break
            state = {one["name"]: one for one in version.status.get("features") or ()}.get(sent.feature) or {}
            if wants(version, sent.feature) != sent.after:
                reached = None
            elif state.get("state") == "InSync" and state.get("desired") == sent.after:
                reached = version
                by_others = place
            elif (
                version.by.startswith(OPERATOR) and state.get("state") not in ("InSync", "Drifted", None)
            ) or not version.status.get("features"):
                reached = None
        if reached is None or "features" not in act.begun.status:
            continue
        moved = [
            one
            for at, one in facts.of_kind(Moved)
            if by_others < at < act.place and (one.cluster_id, one.feature) == (sent.cluster_id, sent.feature)
        ]
        if moved and all(one.by is None for one in moved):
            yield Violation("drift", sent.at, f"{sent} corrects what somebody else changed, without being asked to")


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
        fought = ready.get("reason") == "ConflictDetected" and None in facts.moved_by
        if (there != dict(levels) or ready.get("status") != "True") and not fought:
            yield Violation("settles", version.at, f"{uid} wants {dict(levels)} and has {there}: {dict(ready)}")
    for record in facts.records[place:]:
        if isinstance(record, Sent) or (isinstance(record, Stored) and record.by.startswith(OPERATOR)):
            yield Violation("rests", record.at, f"not at rest: {type(record).__name__} {record.uid}")
            return


RULES: tuple[Rule, ...] = (
    the_intent_is_written_before_the_act,
    the_effect_log_tells_of_every_effect,
    nothing_is_done_that_the_owner_does_not_ask_for,
    no_downgrade_without_a_consent_and_none_twice,
    never_on_a_wrong_cluster,
    what_is_open_stays_alone,
    what_became_of_an_effect_is_told_as_it_was,
    every_node_supports_what_is_sent,
    an_owner_acts_alone,
    ready_means_read,
    generations_only_grow,
    approvals_are_for_one_plan,
    drift_is_corrected_only_where_that_is_asked_for,
    it_settles_and_rests,
)


def violations(history: History) -> list[Violation]:
    """Every promise that the history breaks."""
    facts = Facts(history)
    return [violation for rule in RULES for violation in rule(facts)]
