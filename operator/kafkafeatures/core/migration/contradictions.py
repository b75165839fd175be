"""Contradictions between the metadata log, the znodes and the nodes of a cluster: states that Kafka does not leave by
itself and that must be corrected before a migration continues.

Pure. `position_of` reports the first row of `CONTRADICTIONS` that holds; if none holds, it looks the position up in
`ROWS` of `core/migration/positions.py`. Each row names its subject and a remedy. Sources: tests with real nodes,
`KRaftMigrationDriver` and `KafkaZkClient` of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kafkafeatures.core.migration.positions import (
    FLAG,
    ROWS,
    BrokerMode,
    ClaimKind,
    MigrationEvidence,
    Misplaced,
    Position,
)
from kraftlog.image import ZkMigrationState

S, C = ZkMigrationState, ClaimKind
Nodes = Callable[[MigrationEvidence], tuple[int, ...]]
"""Function that returns the ids of the nodes that a row is about; the row holds only if there are any."""


def in_zookeeper(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Brokers in ZooKeeper mode, with the flag or without."""
    return tuple(id_ for id_, mode in evidence.brokers.items() if mode in (BrokerMode.PLAIN, BrokerMode.FLAGGED))


def plain(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Brokers in ZooKeeper mode that do not follow the quorum."""
    return tuple(id_ for id_, mode in evidence.brokers.items() if mode is BrokerMode.PLAIN)


def in_kraft(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Brokers in KRaft mode."""
    return tuple(id_ for id_, mode in evidence.brokers.items() if mode is BrokerMode.KRAFT)


def unflagged_beside_zookeeper(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Controllers without the flag while brokers are in ZooKeeper mode; else none. If such a controller becomes active,
    the brokers may lose metadata.
    """
    return evidence.unflagged if in_zookeeper(evidence) else ()


def unflagged_beside_flagged(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Controllers without the flag while another controller has it; else none."""
    return evidence.unflagged if True in evidence.controllers.values() else ()


def all_flagged(evidence: MigrationEvidence) -> tuple[int, ...]:
    """All controllers if each has the flag; else none."""
    return tuple(evidence.controllers) if set(evidence.controllers.values()) == {True} else ()


def flagged(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Controllers with the flag."""
    return tuple(id_ for id_, flag in evidence.controllers.items() if flag)


def of_two_roles(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Ids that brokers and controllers share although no node can be both: a migration has no combined nodes."""
    if evidence.state is not S.PRE_MIGRATION and not in_zookeeper(evidence):
        return ()
    return tuple(sorted(evidence.brokers.keys() & evidence.controllers.keys()))


def all_plain(evidence: MigrationEvidence) -> tuple[int, ...]:
    """Brokers in ZooKeeper mode that do not follow the quorum, if all brokers with a known mode are such; else none."""
    return (
        plain(evidence)
        if {mode for mode in evidence.brokers.values() if mode is not None} == {BrokerMode.PLAIN}
        else ()
    )


class Contradiction(Struct, frozen=True):
    """A row: a state that no position has.

    state: states of the metadata log in which the row holds; None among them: no controller answers.
    claim: kinds of nodes in `/controller` with which the row holds.
    copied: whether `/migration` says that ZooKeeper was copied; None: it does not matter.
    nodes: the nodes that the row is about; None: it is about no node.
    subject, message, remedy: texts, with `{nodes}` for the ids of the nodes and `{offset}` for the offset in
        `/migration`.
    elects: the remedy makes another controller the active one.
    may_pass, at_first: as in `Misplaced`.
    """

    state: tuple[ZkMigrationState | None, ...]
    claim: tuple[ClaimKind, ...]
    copied: bool | None
    nodes: Nodes | None
    subject: str
    message: str
    remedy: str
    elects: bool = False
    may_pass: bool = False
    at_first: str = ""

    def of(self, evidence: MigrationEvidence) -> Misplaced | None:
        """The contradiction with its texts filled in for this evidence; None if the row does not hold."""
        if evidence.state not in self.state or evidence.claim not in self.claim:
            return None
        if self.copied is not None and self.copied is not (evidence.offset > 0):
            return None
        nodes = self.nodes(evidence) if self.nodes is not None else ()
        if self.nodes is not None and not nodes:
            return None

        def filled(text: str) -> str:
            return text.replace("{nodes}", ", ".join(map(str, nodes))).replace("{offset}", str(evidence.offset))

        subject, message, remedy = map(filled, (self.subject, self.message, self.remedy))
        if self.elects:
            remedy = with_flags_first(evidence, remedy)
        return Misplaced(message, remedy, subject, self.may_pass, filled(self.at_first))


def with_flags_first(evidence: MigrationEvidence, remedy: str) -> str:
    """A remedy that makes another controller the active one; if a controller without the flag could become active, and
    so end the migration, with a first step that prevents this.
    """
    if evidence.state is not S.MIGRATION or not evidence.unflagged:
        return remedy
    ids = ", ".join(map(str, evidence.unflagged))
    return f"first put {FLAG} back on controller {ids}, which would end the migration; then {remedy}"


ANY = tuple(ClaimKind)
WIPE = "stop the controllers, delete /migration if it exists, wipe the controllers' disks, format them, and begin again"
RECLAIM = (
    "restart the active controller, with its settings unchanged: the controller that is elected claims /controller"
)
RESTORE = (
    "create it again with zookeeper-shell.sh: create /migration "
    '\'{"version":0,"kraft_metadata_offset":1,"kraft_controller_id":-1,"kraft_metadata_epoch":-1,'
    '"kraft_controller_epoch":-1}\' (set, if it exists); then restart the active controller, with its settings '
    "unchanged: the controller that is elected writes all metadata to ZooKeeper again"
)
NO_CHANGES = "create, delete and reassign no topic, and restart no broker meanwhile"
LOST_WITH_IT = "topics that were created through the broker since it became the controller are deleted then"
TAKE_LEADERS_ANEW = (
    "then restart each broker in ZooKeeper mode, one after the other, with its settings unchanged: until then it may "
    "ignore leaders that the controllers elect, as the broker that was the controller gave it higher leader epochs"
)
"""Remedy for a broker that knows another leader of the same leader epoch, and so ignores what the controllers send it
(as was observed on real nodes).
"""

CONTRADICTIONS = (
    # Two controllers at once: the most dangerous state, so these rows come first.
    Contradiction(
        (S.MIGRATION,), (C.BROKER,), True, None, "/controller",
        "two controllers at once: /controller names a broker in ZooKeeper mode, while the controllers of the quorum "
        "still lead: a partition may get two leaders, and records may be lost",
        f"first {RECLAIM}, and the broker is deposed; {LOST_WITH_IT}; {NO_CHANGES}; {TAKE_LEADERS_ANEW}; "
        "and compare: kafkafeatures migration compare",
        elects=True,
    ),
    Contradiction(
        (S.MIGRATION,), (C.BROKER,), False, in_kraft, "/controller",
        "two controllers at once: /controller names a broker in ZooKeeper mode, and /migration has lost what was "
        "copied, while the controllers of the quorum still lead brokers in KRaft mode ({nodes}): a partition may get "
        "two leaders, and records may be lost",
        f"do not restart a controller before /migration is there; {NO_CHANGES}; first {RESTORE}; {LOST_WITH_IT}; "
        f"{TAKE_LEADERS_ANEW}; and compare: kafkafeatures migration compare",
        elects=True,
    ),
    Contradiction(
        (None,), (C.BROKER,), None, in_kraft, "/controller",
        "/controller names a broker in ZooKeeper mode, while brokers run in KRaft mode ({nodes}), whose controllers do "
        "not answer: these may still lead, and a partition may get two leaders",
        "first start the controllers with their disks, or make them reachable (bootstrapControllers, network, TLS); "
        f"delete no znode, wipe no disk; {NO_CHANGES}",
    ),
    # Causes of several later rows, so that the cause is reported and not a consequence of it.
    Contradiction(
        (S.NONE, S.PRE_MIGRATION), ANY, None, of_two_roles, "controllers {nodes}",
        "controllers have ids of brokers: {nodes}; no broker and controller may have the same id",
        f"give these controllers ids that no broker has, in node.id and controller.quorum.voters; {WIPE}",
    ),
    Contradiction(
        (None, S.NONE, S.PRE_MIGRATION), (C.KRAFT,), False, all_plain, "/controller",
        "the znode /controller names a controller of a KRaft quorum, but nothing was copied, no broker has the "
        "flag, and no active controller is the one that it names",
        "name the controllers in bootstrapControllers if some run; if none does, delete it: zookeeper-shell.sh "
        "HOST:PORT/CHROOT delete /controller, so that a broker becomes the controller",
    ),
    # Disks or znodes of an earlier attempt, or none where they are needed.
    Contradiction(
        (S.MIGRATION,), (C.BROKER,), False, None, "disks of the controllers",
        "the metadata log says that a migration is in progress, but a broker in ZooKeeper mode is the controller, and "
        "/migration says that nothing was copied: the controllers still have the disks of an earlier attempt, or "
        "/controller and /migration were deleted; they never take over",
        f"{WIPE}; then restart each broker that has the flag, with its settings unchanged, so that it registers again",
    ),
    Contradiction(
        (S.PRE_MIGRATION,), ANY, True, None, "/migration",
        "/migration says that ZooKeeper was copied up to offset {offset}, but the metadata log has none "
        "of it: the controllers would skip the copy, and delete every topic",
        "stop the controllers now, before the brokers get the flag; " + WIPE,
    ),
    Contradiction(
        (None,), (C.BROKER,), True, None, "/migration",
        "/migration says that ZooKeeper was copied up to offset {offset}, but no controller answers: new "
        "controllers would skip the copy, and delete every topic",
        "start no controller; delete /migration with zookeeper-shell.sh, and wipe the controllers' disks",
    ),
    Contradiction(
        (S.POST_MIGRATION,), ANY, None, in_zookeeper, "brokers {nodes}",
        "the migration was finalized while brokers were in ZooKeeper mode: {nodes}",
        "restart each of them in KRaft mode; the migration cannot be rolled back",
    ),
    Contradiction(
        (S.POST_MIGRATION,), ANY, None, all_flagged, "controllers {nodes}",
        f"the migration is finalized, but its controllers run with {FLAG}: {{nodes}}",
        "set it to false on each of them and restart them, one after the other; it has no effect any more",
    ),
    # Controllers that do not answer, or that have not claimed /controller.
    Contradiction(
        (None,), (C.KRAFT, C.NONE), None, in_kraft, "controllers",
        "no controller answers, while brokers are in KRaft mode: {nodes}",
        "start the controllers with their disks, or make them reachable: bootstrapControllers, network, TLS",
        may_pass=True,
    ),
    Contradiction(
        (None, S.PRE_MIGRATION), (C.NONE,), None, in_zookeeper, "/controller",
        "no broker is controller: /controller is absent",
        "see the logs of the brokers, and restart one: each tries to become the controller when it starts",
        may_pass=True,  # until one is elected
    ),
    Contradiction(
        (S.MIGRATION,), (C.LEADER, C.KRAFT, C.NONE), False, None, "/migration",
        "/migration is absent, or says that nothing was copied, while the metadata log has the copy: no change reaches "
        "ZooKeeper, and a controller that is elected now never takes over",
        f"do not restart a controller before it is there; {RESTORE}",
        elects=True,
        may_pass=True,  # the copy was committed, and is noted there next
    ),
    Contradiction(
        (S.MIGRATION,), (C.NONE,), True, None, "/controller",
        "/controller is absent, although the controllers of the quorum lead: a broker that starts in ZooKeeper mode "
        "becomes a second controller",
        f"{RECLAIM}; {NO_CHANGES}",
        elects=True,
    ),
    Contradiction(
        (S.PRE_MIGRATION,), ANY, None, in_kraft, "brokers {nodes}",
        "brokers run in KRaft mode before ZooKeeper was copied, and no controller registers them: {nodes}",
        "restart each of them in ZooKeeper mode, as the other brokers are",
    ),
    Contradiction(
        (S.PRE_MIGRATION, S.MIGRATION), (C.LEADER,), None, plain, "brokers {nodes}",
        f"brokers run in ZooKeeper mode without {FLAG}, and do not follow the controllers: {{nodes}}",
        "restart each of them as the other brokers are: kafkafeatures migration settings shows every line",
    ),
    Contradiction(
        (S.PRE_MIGRATION, S.MIGRATION), (C.KRAFT,), None, None, "/controller",
        "/controller does not name the active controller at its epoch: it cannot write to ZooKeeper",
        "see the log of the active controller for KRaftMigrationDriver; it must reach ZooKeeper, and may change "
        "/controller, /controller_epoch and /migration there",
        may_pass=True,  # one that was just elected has not claimed it yet
    ),
    # Controllers without the flag, or that were once started without it.
    Contradiction(
        (S.PRE_MIGRATION, S.MIGRATION), ANY, None, unflagged_beside_zookeeper, "controllers {nodes}",
        f"controllers run without {FLAG} while brokers are in ZooKeeper mode: {{nodes}}; if one of them becomes the "
        "active controller, the migration ends with what was copied by then",
        "set it to true on these controllers, and restart them, the active controller last; restart no other node "
        "before that",
    ),
    Contradiction(
        (S.NONE,), ANY, None, unflagged_beside_zookeeper, "controllers {nodes}",
        f"controllers were started without {FLAG}: {{nodes}}; their metadata log is that of a new cluster, and cannot "
        "take over a cluster from ZooKeeper",
        f"set it to true on these controllers; {WIPE}",
    ),
    Contradiction(
        (S.NONE,), ANY, None, unflagged_beside_flagged, "controllers {nodes}",
        f"controllers run without {FLAG}: {{nodes}}; one of them led the quorum, so the metadata log is that of a new "
        "cluster",
        f"set it to true on these controllers; {WIPE}",
        may_pass=True,
    ),
    Contradiction(
        (S.NONE,), ANY, None, flagged, "controllers {nodes}",
        f"the controllers have {FLAG}, but were once started without it: their metadata log is that of a new cluster",
        WIPE,
        may_pass=True,  # a leader that was just elected has not written its first state yet
        at_first="the controllers have not written yet that they migrate",
    ),
    Contradiction(
        (S.NONE,), ANY, None, in_kraft, "metadata log",
        "the metadata log is that of a cluster that was created in KRaft mode, and has nothing to migrate; brokers in "
        "KRaft mode: {nodes}",
        "remove spec.migration; if this is not the intended cluster, check the bootstrap addresses",
        may_pass=True,
    ),
)  # fmt: skip
"""Rows in order: the first one that holds is reported."""


def position_of(evidence: MigrationEvidence) -> Position | Misplaced:
    """The only position that fits all evidence; else the contradiction in the evidence, with its remedy."""
    misplaced = next((contradiction for row in CONTRADICTIONS if (contradiction := row.of(evidence)) is not None), None)
    if misplaced is not None:
        return misplaced
    # A node that does not answer fits any row. If that leaves several positions, its registration decides.
    possible = {row.position for row in ROWS if row.fits(evidence)}
    positions = possible if len(possible) == 1 else {row.position for row in ROWS if row.fits(evidence.as_registered)}
    if len(positions) == 1:
        return positions.pop()
    if evidence.silent and possible:
        return _silent(evidence)
    return Misplaced(
        f"the phase cannot be determined: {evidence}",
        "see which of these facts is not as you expect it, and undo what was changed last: the page Migration of the "
        "reference shows what holds in each phase",
        "phase of the migration",
        may_pass=True,
        at_first=str(evidence),
    )


def _silent(evidence: MigrationEvidence) -> Misplaced:
    silent, unlisted = (", ".join(map(str, ids)) for ids in (evidence.silent, evidence.unlisted))
    text, remedy = f"the phase is unknown while these nodes do not answer: {silent}", "bring each of them back"
    if unlisted:
        text += f"; brokers that run, but were unregistered: {unlisted}"
        remedy = "restart each of them with its settings, so that it registers again"
    return Misplaced(
        text,
        remedy,
        f"node {silent}" if len(evidence.silent) == 1 else f"nodes {silent}",
        may_pass=True,
        silent=evidence.silent,
    )
