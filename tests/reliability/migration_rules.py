"""The promises of a migration, checked against the true state of the simulated cluster. No import of the operator.

S9 and S11 to S14 of the operator's promises: no level moves while a migration is open; each restart is the next step of
what the document asks for; no door closes while the two stores differ; nothing is given back to ZooKeeper while
something of the quorum runs; to finalize takes consent, approval and time; a way back leaves a cluster that works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from tests.reliability.facts import APPROVE, applies, seconds, writer
from tests.reliability.migration_end_rules import it_ends_where_the_document_wants_it, what_is_told_is_so
from tests.reliability.migration_facts import (
    DELETION,
    RESTART,
    MigrationFacts,
    MigrationStep,
    desired_of,
    is_copied,
    modes,
)
from tests.reliability.migration_records import (
    FINALIZED,
    MIGRATION,
    PRE_MIGRATION,
    Aimed,
    Deleted,
    Made,
    Mode,
    Over,
    Released,
    Seen,
    Strayed,
    Truth,
    Weighed,
)
from tests.reliability.records import Copies, Sent, Stored
from tests.reliability.violations import Violation

COMPARED_WITHIN = 125.0
"""Seconds for which a comparison counts, and those until its step is announced."""
OWN_CHROOT = ":2181/kafka"
"""How `zookeeper.connect` of the cluster ends."""
LAST_MOMENTS = 10.0
"""Seconds after a comparison in which the next one is not due, or not done, and the controllers may be stopped."""
SESSION = 40.0
"""Seconds after which the session of a broker that ended is over: zookeeper.session.timeout.ms, and twice that."""
LAST_WITHIN = 300.0
"""Seconds for which the last comparison counts at the end, however long ago it was that anything looked."""

Rule = Callable[[MigrationFacts], Iterator[Violation]]


def a_step_is_of_a_document_that_lets_it(facts: MigrationFacts) -> Iterator[Violation]:
    """No step is announced for a resource that is suspended, paused or observed."""
    for step in (*facts.steps(RESTART), *facts.steps(DELETION)):
        if not applies(step.begun):
            yield Violation("held back", step.at, f"{step} while it was suspended, paused or observed")
        if not step.looks:
            yield Violation("fresh", step.at, f"{step}, and nothing was read for it")


def a_restart_is_the_next_step(facts: MigrationFacts) -> Iterator[Violation]:
    """S12: of each node in its turn, by what the cluster is."""
    for step in facts.steps(RESTART):
        if step.looks and not any(_is_next(step, truth) for truth in step.looks):
            yield Violation("next step", step.at, f"{step}, and the cluster was {step.looks[0]}")


def _is_next(step: MigrationStep, truth: Truth) -> bool:
    if not step.is_of_broker:
        ends = truth.state in (MIGRATION, FINALIZED) and modes(truth) == {Mode.KRAFT}
        return step.desired == "Finalized" and ends and truth.controllers.get(step.node) is not False
    mode = truth.brokers.get(step.node, Mode.GONE)
    others = modes(truth) - {Mode.GONE}
    if step.is_back:
        unflags = truth.state is None and truth.offset is None and not truth.is_kraft and Mode.KRAFT not in others
        return (mode is Mode.KRAFT and is_copied(truth)) or (mode in (Mode.FLAGGED, Mode.GONE) and unflags)
    if step.desired != "DualWrite":
        return False
    flags = truth.state == PRE_MIGRATION and (truth.offset or -1) <= 0 and Mode.KRAFT not in others
    if flags:
        return mode in (Mode.PLAIN, Mode.GONE) and set(truth.controllers.values()) <= {True, None}
    return is_copied(truth) and mode in (Mode.FLAGGED, Mode.GONE) and Mode.PLAIN not in others


def the_one_that_is_controller_goes_last(facts: MigrationFacts) -> Iterator[Violation]:
    """The last of the brokers that get the flag, and of the controllers that lose it."""
    for step in facts.steps(RESTART):

        def is_early(truth: Truth, step: MigrationStep = step) -> bool:
            if step.is_of_broker:
                left = [id_ for id_, mode in truth.brokers.items() if mode is Mode.PLAIN and id_ != step.node]
                return truth.state == PRE_MIGRATION and truth.claim == step.node and bool(left)
            left = [id_ for id_, flag in truth.controllers.items() if flag and id_ != step.node]
            return truth.leader == step.node and bool(left)

        if step.looks and step.always(is_early):
            yield Violation("leader last", step.at, f"{step}, which is controller while others are left")


def partitions_stay_available(facts: MigrationFacts) -> Iterator[Violation]:
    """S2: no partition falls below its min.insync.replicas by a restart that was asked for."""
    for step in facts.steps(RESTART):
        if not step.is_of_broker or not step.looks:
            continue

        def falls(truth: Truth, step: MigrationStep = step) -> bool:
            return any(_falls(one, step.node, truth) for one in truth.copies.values())

        if step.always(falls):
            yield Violation("min.insync.replicas", step.at, f"{step}, and {step.looks[0].copies}")


def _falls(copies: Copies, node: int, truth: Truth) -> bool:
    gone = {id_ for id_, mode in truth.brokers.items() if mode is Mode.GONE}
    there = copies.in_sync - gone
    return node in there and len(there - {node}) < min(copies.needed, len(copies.replicas) - 1)


def the_quorum_keeps_a_majority(facts: MigrationFacts) -> Iterator[Violation]:
    """S4: of voters that have caught up, without the one that is restarted."""
    for step in facts.steps(RESTART):
        if step.is_of_broker or not step.looks:
            continue

        def loses_it(truth: Truth, node: int = step.node) -> bool:
            return len(truth.voters - {node}) * 2 <= len(truth.controllers)

        if step.always(loses_it):
            yield Violation("majority", step.at, f"{step}, and only {sorted(step.looks[0].voters)} are there")


def one_at_a_time(facts: MigrationFacts) -> Iterator[Violation]:
    """S1: a person is asked to restart one node, and no other before that is over; nothing is given back before it is
    in ZooKeeper mode again.
    """
    for step in facts.steps(RESTART):
        if len(step.begun.status.get("intents") or ()) > 1:
            yield Violation("one at a time", step.at, f"{step} beside {step.begun.status['intents']}")
    for step in facts.steps(DELETION):
        for other in step.begun.status.get("intents") or ():
            id_ = other.get("nodeId")
            if other["kind"] == RESTART and step.looks and step.always(lambda truth, id_=id_: not _is_back(truth, id_)):  # type: ignore[misc]
                yield Violation("one at a time", step.at, f"{step} beside {other}")


def _is_back(truth: Truth, broker: int) -> bool:
    return truth.brokers.get(broker) in (Mode.PLAIN, Mode.FLAGGED)


def no_door_closes_while_the_stores_differ(facts: MigrationFacts) -> Iterator[Violation]:
    """S13, S14: compared moments before, by the process that decides, and equal then; or, on the way back, with a
    consent to what is lost.
    """
    for step in facts.steps(RESTART):
        if step.looks and step.always(is_copied) and not facts.is_begun(step):
            yield from _compared(facts, step.place, step.begun, str(step))
    for place, version in facts.asks_to_stop_controllers():
        looks = facts.looks(place, writer(version), version.uid)
        if looks and all(map(is_copied, looks)) and applies(version):
            yield from _compared(facts, place, version, "the controllers are to be stopped")


def _compared(facts: MigrationFacts, place: int, version: Stored, what: str) -> Iterator[Violation]:
    found = facts.weighed(place, writer(version), version.uid)
    back = desired_of(version) == "RolledBack"
    lossy = back and "zk-rollback-lossy" in (version.spec.get("consents") or ())
    if found is None or version.at - found.at > COMPARED_WITHIN:
        yield Violation("equality", version.at, f"{what}, and the stores were compared {found and found.at}")
    elif found.differed and not (lossy and found.differed <= _accepted(facts, place, version.uid)):
        yield Violation("equality", version.at, f"{what}, and the stores differ: {sorted(found.differed)}")


def _accepted(facts: MigrationFacts, place: int, uid: str) -> frozenset[str]:
    """The differences to which a consent to lose metadata applies: those of the last comparisons before it, of which
    the status has shown one.
    """
    given = _since(facts, place, uid, "zk-rollback-lossy")
    weighed = [(at, one.differed) for at, one in facts.of_kind(Weighed) if at < place and one.uid == uid]
    return frozenset().union(*[differed for at, differed in weighed if at < given and differed][-3:])


def _since(facts: MigrationFacts, place: int, uid: str, consent: str) -> int:
    """Since which place in the record a document has had a consent."""
    versions = [(at, one) for at, one in facts.versions[uid] if at <= place]
    without = [at for at, one in versions if consent not in (one.spec.get("consents") or ())]
    return min((at for at, _ in versions if at > max(without, default=-1)), default=place)


def nothing_is_given_back_too_early(facts: MigrationFacts) -> Iterator[Violation]:
    """S14: `/controller` and `/migration` go while nothing of the quorum runs, and once what stood there was saved."""
    kept = {str(step.intent.get("kept", "")) for step in facts.steps(DELETION)}
    for place, one in facts.of_kind(Deleted):
        looks = facts.looks(place, one.process, one.uid)
        given = [version for at, version in facts.versions[one.uid] if at < place][-1].spec.get("consents") or ()
        runs = {
            id_
            for id_, mode in one.truth.brokers.items()
            if mode is Mode.KRAFT and f"zk-lose-broker:{id_}" not in given
        }
        if looks and any(all(truth.brokers[id_] is Mode.KRAFT for truth in looks) for id_ in runs):
            yield Violation("given back", one.at, f"brokers run in KRaft mode: {one.truth.brokers}")
        for id_ in sorted(_hosts(one.truth)) if (one.truth.offset or -1) > 0 else ():  # else nothing was copied
            if f"zk-lose-broker:{id_}" not in given and _is_gone(facts, place, one.at, id_):
                yield Violation("given back", one.at, f"broker {id_} has replicas, and is gone for long")
        if any(flag is not None for flag in one.truth.controllers.values()) and not _vouched(facts, place, one.uid):
            yield Violation("given back", one.at, f"controllers run: {one.truth.controllers}")
        if one.kept not in kept:
            yield Violation("given back", one.at, f"{one.kept} was not saved before")
        if not one.logged:
            yield Violation("effect log", one.at, f"{one} is not in it")
    for step in facts.steps(DELETION):
        if not step.is_back:
            yield Violation("next step", step.at, f"{step}")


def _hosts(truth: Truth) -> set[int]:
    return {id_ for copies in truth.copies.values() for id_ in copies.replicas}


def _is_gone(facts: MigrationFacts, place: int, at: float, broker: int) -> bool:
    """True if the broker ran in none of the readings since its session in ZooKeeper ended."""
    seen = [one.truth for where, one in facts.of_kind(Seen) if where < place and at - one.at <= SESSION]
    return bool(seen) and all(truth.brokers.get(broker) is Mode.GONE for truth in seen)


def _vouched(facts: MigrationFacts, place: int, uid: str) -> bool:
    """True if a person confirmed that the controllers have stopped, after the status had asked for it."""
    consent = "zk-controllers-stopped"
    given = _since(facts, place, uid, consent)
    asked = [one for at, one in facts.versions[uid] if at < given][-1:]
    return given < place and any(consent in str(one.status.get("blockers")) for one in asked)


def nothing_happens_in_another_ensemble(facts: MigrationFacts) -> Iterator[Violation]:
    """A cluster is moved by what stands in its own ensemble, and nothing is written to another one."""
    for _, one in facts.of_kind(Strayed):
        yield Violation("another ensemble", one.at, f"{one.paths} were deleted in the ensemble of another cluster")
    for step in (*facts.steps(RESTART), *facts.steps(DELETION)):
        connect = str((step.begun.spec["cluster"].get("zookeeper") or {}).get("connect"))
        if not connect.endswith(OWN_CHROOT):
            yield Violation("another ensemble", step.at, f"{step}, by what stands in {connect}")


def nothing_is_restarted_while_another_may_end_it(facts: MigrationFacts) -> Iterator[Violation]:
    """A controller that lost the flag without being asked to ends the migration as soon as it leads: until it has the
    flag again nothing is restarted or stopped that may bring that about, unless it is to end by now.
    """
    for step in facts.steps(RESTART):
        if step.looks and step.always(_may_end) and not facts.is_begun(step) and not _is_to_end(step):
            yield Violation("unasked", step.at, f"{step}, and the cluster was {step.looks[0]}")
    for place, version in facts.asks_to_stop_controllers():
        looks = facts.looks(place, writer(version), version.uid)
        if looks and all(map(_may_end, looks)):
            yield Violation("unasked", version.at, f"the controllers are to be stopped, and it was {looks[0]}")


def _is_to_end(step: MigrationStep) -> bool:
    """True if a document asks to finalize with its consent and an approval; other conditions have their own rules."""
    consented = "zk-finalize" in (step.begun.spec.get("consents") or ())
    return step.desired == "Finalized" and consented and _is_approved(step)


def _is_approved(step: MigrationStep) -> bool:
    return bool((step.begun.spec.get("approval") or {}).get("planHash") or step.begun.annotations.get(APPROVE))


def _may_end(truth: Truth) -> bool:
    return truth.state == MIGRATION and False in truth.controllers.values()


def the_epoch_is_above_that_of_partitions(facts: MigrationFacts) -> Iterator[Violation]:
    """KAFKA-20488: else partitions stay offline in ZooKeeper mode."""
    for _, one in facts.of_kind(Released):
        if one.epoch < one.highest:
            yield Violation("epoch", one.at, f"/controller_epoch is {one.epoch}, and of a partition {one.highest}")


def to_finalize_takes_consent_approval_and_time(facts: MigrationFacts) -> Iterator[Violation]:
    """S13: the first controller that is to lose the flag, by the log: while that says MIGRATION, and none was asked to
    lose it before by what stands in the document now, there is a way back.
    """
    for step in facts.steps(RESTART):
        if step.is_of_broker or not step.looks or facts.is_begun(step):
            continue
        if not step.always(lambda truth: truth.state == MIGRATION):
            continue
        spec = step.begun.spec
        if "zk-finalize" not in (spec.get("consents") or ()):
            yield Violation("consent", step.at, f"{step}, without its consent")
        if not _is_approved(step):
            yield Violation("approval", step.at, f"{step}, without an approval")
        if step.always(lambda truth: any(one.in_sync != one.replicas for one in truth.copies.values())):
            yield Violation("under-replicated", step.at, f"{step}, and {step.looks[0].copies}")
        lasts = seconds(spec["migration"].get("holdDualWriteFor"), 0.0)
        early = [
            one.registered for one in step.looks if one.registered is not None and step.at - one.registered < lasts
        ]
        if len(early) == len(step.looks):
            yield Violation("soak", step.at, f"{step}, and a broker registered at {early[-1]:.1f}")


def no_broker_is_left_behind(facts: MigrationFacts) -> Iterator[Violation]:
    """S11, S13: a migration ends with every broker in KRaft mode."""
    for place, one in facts.of_kind(Over):
        asked = any(step.place < place and not step.is_of_broker for step in facts.steps(RESTART))
        if asked and modes(one.truth) != {Mode.KRAFT}:
            yield Violation("stranded", one.at, f"finalized with {one.truth.brokers}")


def no_level_moves_meanwhile(facts: MigrationFacts) -> Iterator[Violation]:
    """S9."""
    for place, one in facts.of_kind(Sent):
        looks = facts.looks(place, one.process, one.uid)
        if looks and all(truth.is_open for truth in looks):
            yield Violation("migration", one.at, f"{one} while a migration is open")


def no_topic_vanishes(facts: MigrationFacts) -> Iterator[Violation]:
    """F01: what was there is there in the end, but what a consent gave up, and what was made in the last moments."""
    over = [(place, one) for place, one in facts.of_kind(Aimed) if one.over]
    last, end = over[-1] if over else (0, None)  # the look shows no topic that was made after it
    made = {one.topic for place, one in facts.of_kind(Made) if place < last} - _made_in_the_last_moments(facts)
    consented = any(
        "zk-rollback-lossy" in (one.spec.get("consents") or ()) and desired_of(one) == "RolledBack"
        for _, one in facts.of_kind(Stored)
    )
    if end is not None and not consented and end.truth.topics:
        lost = made - {*end.truth.topics}
        if lost:
            yield Violation("lost", end.at, f"{sorted(lost)} are gone")


def _made_in_the_last_moments(facts: MigrationFacts) -> set[str]:
    """Topics that were made after the last comparison before a way back, where the next was not due yet, or no process
    of the operator was there, or none reached the controllers, to make it: nothing can show that they are lost. Order
    is that of the record, since a topic and a comparison may have the same time.
    """
    compared = [(place, one.at) for place, one in facts.of_kind(Weighed)]
    ends = [
        max((one for one in compared if one[0] < place), default=(-1, -inf)) for place, _ in facts.of_kind(Released)
    ]
    looked = [(place, one.at) for place, one in facts.of_kind(Seen) if not one.truth.is_hidden]  # else no comparison

    def is_unseen(place: int, at: float) -> bool:
        return not any(place < other and time <= at + LAST_MOMENTS for other, time in looked)

    return {
        one.topic
        for place, one in facts.of_kind(Made)
        for last, at in ends
        if last < place and (one.at <= at + LAST_MOMENTS or (one.at <= at + LAST_WITHIN and is_unseen(place, one.at)))
    }


MIGRATION_RULES: tuple[Rule, ...] = (
    a_step_is_of_a_document_that_lets_it,
    a_restart_is_the_next_step,
    the_one_that_is_controller_goes_last,
    partitions_stay_available,
    the_quorum_keeps_a_majority,
    one_at_a_time,
    no_door_closes_while_the_stores_differ,
    nothing_is_given_back_too_early,
    nothing_happens_in_another_ensemble,
    nothing_is_restarted_while_another_may_end_it,
    the_epoch_is_above_that_of_partitions,
    to_finalize_takes_consent_approval_and_time,
    no_broker_is_left_behind,
    no_level_moves_meanwhile,
    no_topic_vanishes,
    what_is_told_is_so,
    it_ends_where_the_document_wants_it,
)
