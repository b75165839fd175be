"""Conditions that must hold before the next step of a migration: for each way from one position to the next
(`edges.Edge`), a chain of named checks.

Pure. `core/migration/state.py` calls `blockers` in each reconciliation, so also right before each restart. Every check
of the chain runs, so that people see all blockers at once. What is not known blocks. Sources: KIP-866,
`KRaftMigrationDriver` of Kafka 3.9, and observations on real nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import chain

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.core.engine.blockers import Blocker, these, title_of, verb
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.replication import format_partitions
from kafkafeatures.core.migration.check_input import EdgeCheckInput
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.demands import NodeDemand
from kafkafeatures.core.migration.edges import (
    FINALIZE,
    FLAG_BROKERS,
    MOVE_BROKERS,
    MOVE_BROKERS_BACK,
    RELEASE,
    START_CONTROLLERS,
    STOP_CONTROLLERS,
    UNFLAG_BROKERS,
    WITHDRAW,
    Edge,
)
from kafkafeatures.core.migration.equality import REMEDY
from kafkafeatures.core.migration.finalize import consent_used, unconsented, with_flags_first_in_dual_write
from kafkafeatures.core.migration.informed import uninformed
from kafkafeatures.core.migration.led import not_led, not_voting
from kafkafeatures.core.migration.losses import losses, needs_comparison, not_back, remaining_blockers
from kafkafeatures.core.migration.positions import FLAG, BrokerMode, Position
from kafkafeatures.core.migration.preflight import findings
from kafkafeatures.core.migration.preflight_input import PreflightInput
from kafkafeatures.core.migration.progress import PREFLIGHTED, MigrationProgress
from kafkafeatures.core.migration.registered import (
    missing,
    to_read,
    unknown_assignment,
    unregistered,
    with_other_levels,
)
from kafkafeatures.core.migration.stopped import REACH, STILL_FOR, STILL_UNPROVEN, pods_left, still_answering, unproven
from kafkafeatures.core.migration.takeover import not_registered
from kraftlog.image import ZkMigrationState

LARGEST_LAG = 10.0
"""Most seconds by which ZooKeeper may be behind the metadata log when a step closes the way back."""

Check = Callable[[EdgeCheckInput], Iterator[Blocker]]

RECORDS_A_SECOND = 2
"""Records that an idle active controller appends to the metadata log each second (`metadata.max.idle.interval.ms`)."""


def lag_of(progress: MigrationProgress, seconds: float | None) -> float | None:
    """Seconds by which ZooKeeper is behind the metadata log, at most; None: not known. The smaller one of two bounds:
    `seconds`, the lag by earlier readings (None: they do not show it), and the time in which an idle log grows by the
    records that are not yet written to ZooKeeper. A busy log grows faster, so its second bound is much too large: alone
    it counts only if it is small enough for a step.
    """
    unwritten_records = progress.observation.source.offset - 1 - progress.facts.offset
    by_records = unwritten_records / RECORDS_A_SECOND if progress.observation.source.offset >= 0 else None
    if seconds is None or by_records is None:
        return by_records if by_records is not None and by_records <= LARGEST_LAG else seconds
    return min(seconds, by_records)


def quorum_is_led(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """An active controller leads the quorum, and each voter answers (`core/migration/led.py`)."""
    yield from not_led(inputs.progress, inputs.flying)


def every_controller_votes(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Each controller is a voter of the quorum that takes over."""
    yield from not_voting(inputs.progress, inputs.flying)


def controllers_have_their_settings(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Controllers have the settings of `core/migration/settings.py`, which must come before those of brokers."""
    for demand in inputs.progress.demands.nodes:
        if demand.role is Role.CONTROLLER and demand.differs and demand.id not in inputs.flying:
            is_known = not isinstance(demand.differs, Failure)
            yield setting_blocker(inputs.progress, demand) if is_known else _unknown(inputs, demand)


def settings_are_known(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Every node that is restarted on this way has reported its settings."""
    role = inputs.progress.way.restarts if inputs.progress.way is not None else None
    for demand in inputs.progress.demands.nodes:
        if demand.role is role and isinstance(demand.differs, Failure) and demand.id not in inputs.flying:
            yield _unknown(inputs, demand)


def brokers_are_registered(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Each broker that has replicas is registered with the quorum, is live, and can register with its level."""
    yield from with_other_levels(inputs.progress, inputs.flying)
    yield from unregistered(inputs.progress, inputs.flying)
    yield from missing(inputs.progress, inputs.flying)
    yield from unknown_assignment(inputs.progress)


def brokers_are_taken_over(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Once all brokers have the flag, each is registered with the quorum, which waits for that before it takes over
    (`core/migration/takeover.py`).
    """
    yield from not_registered(inputs.progress, inputs.flying)


def no_broker_is_in_zookeeper_mode(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """No broker is in ZooKeeper mode: Kafka finalizes a migration even while some are, and the cluster can then only go
    forward (KAFKA-20960).
    """
    brokers = tuple(
        node
        for node in inputs.nodes(Role.BROKER)
        if node.migrating_from_zookeeper or inputs.progress.facts.brokers.get(node.id) is not BrokerMode.KRAFT
    )
    if brokers:
        text = f"{title_of(brokers)} {verb(brokers, 'is', 'are')} not known to run in KRaft mode"
        yield Blocker(BlockerKind.MIGRATION, text, f"restart {these(brokers)} in KRaft mode first", nodes=brokers)


def every_broker_is_back(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Each broker runs in ZooKeeper mode. A broker in KRaft mode cannot live without the quorum; a broker that does not
    answer, or is in no list, may run in KRaft mode. While the quorum copies ZooKeeper, no broker runs in KRaft mode
    yet, and partitions cannot be read.
    """
    yield from not_back(inputs)
    if inputs.progress.position is not Position.COPYING:
        yield from unknown_assignment(inputs.progress)


def finalizing_is_consented(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """A person has consented to finalize the migration, which is irreversible."""
    yield from unconsented(inputs.progress, inputs.consents, inputs.spent)


def partitions_are_whole(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """No partition is under-replicated or being reassigned."""
    if inputs.replication is None:
        partitions = inputs.progress.observation.partitions
        reason = f": {partitions.failure}" if isinstance(partitions, Unknown) else ""
        yield Blocker(BlockerKind.PARTITION, f"the partitions are not known{reason}", to_read(partitions))
        return
    late = tuple(node for node in inputs.progress.observation.nodes if node.id in inputs.replication.lagging())
    laggards, log = (
        (f": {title_of(late)} {verb(late, 'is', 'are')} not in sync", these(late)) if late else ("", "their brokers")
    )
    until = f"wait until all replicas are in sync; if that lasts, see the log of {log}"
    for (count, names), text, remedy, nodes in (
        (inputs.replication.reassigning(), "being reassigned", "wait until the reassignment is complete", ()),
        (inputs.replication.under_replicated(), f"under-replicated{laggards}", until, late),
    ):
        if count:
            is_ = "is" if count == 1 else "are"
            yield Blocker(BlockerKind.PARTITION, f"{format_partitions(count, names)} {is_} {text}", remedy, nodes=nodes)


def zookeeper_keeps_up(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Changes reach ZooKeeper within seconds, so that a cluster that goes back later finds them there. Checked only
    while the quorum writes to ZooKeeper: once the migration is finalized, controllers that still have the flag must
    lose it all the same.
    """
    if inputs.progress.facts.state is not ZkMigrationState.MIGRATION:
        return
    if inputs.lag is None:
        text = "it is not known yet how far ZooKeeper is behind the metadata log"
        remedy = "see the log of the active controller, which writes /migration; ZooKeeper must be reachable from here"
        yield Blocker(BlockerKind.MIGRATION, text, remedy, about="/migration")
    elif inputs.lag > LARGEST_LAG:
        span = timedelta(seconds=round(inputs.lag))
        yield Blocker(
            BlockerKind.MIGRATION,
            f"ZooKeeper is {span} behind the metadata log; at most {LARGEST_LAG:g} s are allowed",
            "see the log of the active controller, which writes to ZooKeeper",
        )


def consents_used(inputs: EdgeCheckInput) -> frozenset[str]:
    """Consents that the next step needs, and uses."""
    return frozenset({*consent_used(inputs.progress), *(loss.consent for loss in inputs.consentable)}) & inputs.consents


def both_hold_the_same(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """ZooKeeper and the metadata log hold the same metadata, which is not certain, as Kafka never repeats a write to
    ZooKeeper that failed (`core/migration/equality.py`). They are compared while brokers leave ZooKeeper mode or
    return to it, before a migration is finalized, and before the quorum is stopped.
    """
    if not inputs.closes or not needs_comparison(inputs.progress):
        return
    comparison = inputs.progress.observation.compared
    if inputs.compared is None:
        message = (
            f": {comparison.failure}"
            if isinstance(comparison, Unknown) and comparison.failure.kind is not FailureKind.NOT_ASKED
            else ""
        )
        yield Blocker(
            BlockerKind.MIGRATION,
            f"it is not known whether ZooKeeper and the metadata log hold the same metadata{message}",
            to_read(comparison) if message else "see what a comparison says: kafkafeatures migration compare",
            about="ZooKeeper and the metadata log",
        )
    elif inputs.compared.differences and inputs.progress.desired is not Desired.ROLLED_BACK:
        differences = "; ".join(inputs.compared.examples)
        yield Blocker(
            BlockerKind.METADATA,
            f"{inputs.compared.summary}: {differences}",
            with_flags_first_in_dual_write(inputs.progress, REMEDY),
        )
    # On the way back a person may consent to differences, so these are among `consentable`.
    yield from remaining_blockers(inputs, inputs.consentable)


def zookeeper_is_left_alone(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """No controller is left, no broker needs one, and ZooKeeper held all metadata when they stopped. If ZooKeeper may
    lack metadata, the controllers may have to be started again, so no remedy says to stop them.
    """
    lost = tuple(remaining_blockers(inputs, losses(inputs)))
    yield from lost or no_controller_is_left(inputs)


def preflight_passes(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Nothing is known that would make a later step fail (`core/migration/preflight.py`)."""
    progress, reading = inputs.progress, inputs.progress.observation.surveyed
    if progress.way is None or progress.position not in PREFLIGHTED:
        return  # the quorum has taken over
    survey = reading.failure if isinstance(reading, Unknown) else reading.value
    if not isinstance(survey, Survey | Failure):
        raise TypeError(f"{type(survey).__name__} is not a survey")
    yield from findings(
        PreflightInput(
            progress.way.end,
            progress.observation,
            progress.znodes,
            survey,
            inputs.controllers_for,
            inputs.flying,
        )
    )


def no_broker_is_absent(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """At position ZooKeeper, every broker that has replicas is registered: one that is down may come back with the
    flag. At Released, the brokers that run lose the flag first, so nothing is checked yet.
    """
    if inputs.progress.position is not Position.ZOOKEEPER:
        return
    yield from unknown_assignment(inputs.progress)
    for id_ in inputs.progress.facts.absent or ():
        text = f"broker {id_} has replicas but is not registered: it may start again with {FLAG}"
        remedy = f"start broker {id_} without it, or move its replicas to other brokers"
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy, about=f"broker {id_}")


def every_broker_is_informed(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Each broker knows which broker is the controller again; a broker that does not know hangs when it is stopped."""
    yield from uninformed(inputs.progress, inputs.flying)


def no_controller_is_left(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Every controller has stopped, by proof or by the word of a person (`core/migration/stopped.py`), and nothing
    writes to `/migration`.
    """
    yield from pods_left(inputs.progress)
    yield from still_answering(inputs.progress)
    doubt = unproven(inputs.progress, inputs.controllers, inputs.voters)
    yield from remaining_blockers(inputs, inputs.consentable)
    least = STILL_FOR if doubt is None else STILL_UNPROVEN
    if inputs.still_for < least and inputs.is_written:
        text = "a controller still writes to ZooKeeper, although none can be reached"
        yield Blocker(BlockerKind.MIGRATION, text, f"stop every controller; if it is to continue, check {REACH}")
    elif inputs.still_for < least:
        text = f"/migration must stay unchanged for {least:g} s first: a controller of the quorum may still run"
        remedy = f"stop every controller, and start none; if it is to continue instead, check {REACH}"
        yield Blocker(BlockerKind.MIGRATION, text, remedy, about="/migration")


CHAINS: Mapping[Edge, tuple[Check, ...]] = {
    START_CONTROLLERS: (preflight_passes,),
    FLAG_BROKERS: (
        preflight_passes, quorum_is_led, every_controller_votes, controllers_have_their_settings, settings_are_known,
        brokers_are_taken_over,
    ),
    MOVE_BROKERS: (quorum_is_led, settings_are_known, brokers_are_registered, both_hold_the_same),
    FINALIZE: (
        quorum_is_led, settings_are_known, brokers_are_registered, no_broker_is_in_zookeeper_mode, partitions_are_whole,
        zookeeper_keeps_up, both_hold_the_same, finalizing_is_consented,
    ),
    MOVE_BROKERS_BACK: (quorum_is_led, settings_are_known, brokers_are_registered, both_hold_the_same),
    STOP_CONTROLLERS: (every_broker_is_back, zookeeper_keeps_up, both_hold_the_same),
    RELEASE: (zookeeper_is_left_alone,),
    UNFLAG_BROKERS: (no_broker_is_absent, every_broker_is_informed),
    WITHDRAW: (no_controller_is_left,),
}  # fmt: skip
"""The checks of each way, in the order in which their blockers are listed."""


def blockers(inputs: EdgeCheckInput) -> tuple[Blocker, ...]:
    """All that prevents the next step; empty if nothing does, or the cluster is at its goal."""
    edge = inputs.progress.way
    checks = CHAINS.get(edge, ()) if edge is not None else ()
    return tuple(chain.from_iterable(check(inputs) for check in checks))


def setting_blocker(progress: MigrationProgress, demand: NodeDemand) -> Blocker:
    """Blocker for a node whose settings are not as they must be."""
    title, differs = f"{demand.role.value.lower()} {demand.id}", demand.differs
    lines = "; ".join(map(str, differs)) if not isinstance(differs, Failure) else str(differs)
    return Blocker(
        BlockerKind.SETTING,
        f"{title} is not yet {demand.shape.value}: {lines}",
        f"change its settings in Git, then restart {title}",
        nodes=tuple(node for node in progress.observation.nodes if node.id == demand.id),
        reason=Reason.MIGRATION_BLOCKED,
    )


def _unknown(inputs: EdgeCheckInput, demand: NodeDemand) -> Blocker:
    """Blocker for a node that did not report its settings."""
    title, differs = f"{demand.role.value.lower()} {demand.id}", demand.differs
    message, remedy = (
        (differs.message, differs.action) if isinstance(differs, Failure) else ("not read", f"bring {title} back")
    )
    nodes = tuple(node for node in inputs.progress.observation.nodes if node.id == demand.id)
    return Blocker(
        BlockerKind.NODE_UNKNOWN, f"the settings of {title} are not known: {message}", remedy, nodes=nodes, about=title
    )
