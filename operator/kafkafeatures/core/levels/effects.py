"""Effects of each level on a cluster: the behaviour that it turns on, and other data that Kafka writes. A new level is
a row of `ROWS`.

Pure. Shown with each step of a plan (`core/levels/proposal.py`), by `describe --explain-levels`, and in
`docs/reference/levels.md`, which is generated from here. An effect that would change how the cluster works today is
also a blocker (`core/levels/min_insync.py`). How far a level can be downgraded is in `core/facts/releases.py`.

Sources: the class that a row names, and the KIP or Kafka issue. Tested against the classes and on real controllers
(`tests/e2e/kafka/test_effects_of_levels.py`: 3.9.2, 4.1.2, 4.2.0, 4.3.1 and 4.4.0, every level raised, every feature
downgraded): that a level without `writes` writes nothing, and which levels turn something on.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.levels.update_feature import UpdateFeature

SHOWN = 8
"""Most lines about a step in a plan, besides one that counts the hidden ones."""
ALL_OF_THEM = "kafkafeatures describe --explain-levels"
"""Command that shows all lines."""


class LevelEffects(Struct, frozen=True):
    """Effects of one level of a feature.

    turns_on: behaviour of nodes and clients from this level on; empty for none.
    source: the KIP or issue, and the class of Kafka that decides by the level.
    writes: data that Kafka changes at once, besides the level.
    caution: advice before the raise.
    after_downgrade: data that remains, or is lost, after a downgrade below this level.
    """

    feature: str
    level: int
    turns_on: str = ""
    source: str = ""
    writes: str = ""
    caution: str = ""
    after_downgrade: str = ""


def _of_metadata(level: int, turns_on: str, source: str) -> LevelEffects:
    return LevelEffects(METADATA_VERSION, level, turns_on, source)


ROWS: tuple[LevelEffects, ...] = (
    _of_metadata(1, "KRaft: the lowest level of a metadata log", "KIP-500"),
    _of_metadata(2, "Fetch 13: brokers fetch from each other by topic id", "KIP-516"),
    _of_metadata(3, "partitions remember that an unclean leader is still recovering", "KIP-704"),
    _of_metadata(4, "the level itself is kept in the metadata log", "KIP-778"),
    _of_metadata(5, "an idle controller writes no-op records, by which nodes see that the log moves", "KIP-835"),
    _of_metadata(6, "fencing of brokers is one kind of record (BrokerRegistrationChangeRecord)", "MetadataVersion"),
    _of_metadata(7, "a broker that is shutting down is known as such, and kept out of ISRs", "KIP-841"),
    _of_metadata(8, "migration from ZooKeeper (up to Kafka 3.9); registrations say which broker is in it", "KIP-866"),
    _of_metadata(9, "Fetch 14, ListOffsets 8: followers of partitions in tiered storage", "KIP-405"),
    _of_metadata(10, "Fetch 15: a follower that was restarted meanwhile is not taken into an ISR", "KIP-903"),
    _of_metadata(11, "SCRAM credentials in the metadata log", "KIP-900"),
    _of_metadata(12, "an ISR that shrinks no longer raises the leader epoch", "KAFKA-15021"),
    _of_metadata(13, "many metadata records as one transaction", "KIP-868"),
    _of_metadata(14, "delegation tokens in the metadata log", "KAFKA-15219"),
    _of_metadata(15, "controllers register with what they support, and answer tools directly", "KIP-919"),
    _of_metadata(16, "", "reserved"),
    _of_metadata(17, "brokers with several log directories; replicas say in which one they are", "KIP-858"),
    _of_metadata(18, "", "reserved"),
    _of_metadata(19, "Fetch 16: an answer to a follower names the new leader", "KIP-951"),
    _of_metadata(20, "", "none"),
    _of_metadata(21, "Fetch 17, ListOffsets 9: the directory of a fetcher, the last tiered offset", "KIP-853"),
    _of_metadata(22, "", "none"),
    _of_metadata(23, "partition records can hold eligible leader replicas", "KIP-966"),
    _of_metadata(24, "", "none"),
    _of_metadata(25, "ListOffsets 10: offsets in tiered storage are looked up asynchronously", "KIP-1075"),
    _of_metadata(26, "", "none"),
    _of_metadata(27, "Fetch 18: followers learn high watermarks sooner", "KIP-1166"),
    _of_metadata(28, "", "none"),
    _of_metadata(29, "ListOffsets 11: the earliest offset that is not uploaded to tiered storage", "KIP-1023"),
    _of_metadata(30, "log directories can be cordoned: no new replicas are placed in them", "KIP-1066"),
    _of_metadata(31, "", "none"),
    _of_metadata(32, "ACLs may name ranges of addresses (CIDR)", "KIP-1276"),
    _of_metadata(33, "controllers that are gone can be unregistered", "KIP-1312"),
    LevelEffects(
        KRAFT_VERSION, 1, "controllers can be added and removed while the quorum runs (Kafka 4.1 and newer)", "KIP-853",
        writes="the voters, with the addresses with which they registered, into the metadata log: the quorum is "
        "dynamic for ever (KafkaRaftClient)",
        caution="afterwards replace controller.quorum.voters with controller.quorum.bootstrap.servers on each node; a "
        "removed controller that still runs joins again with controller.quorum.auto.join.enable (Kafka 4.2 and newer, "
        "off by default)",
    ),
    LevelEffects(
        "group.version", 1, "consumers with group.protocol=consumer", "KIP-848, GroupVersion",
        after_downgrade="members that use group.protocol=consumer are refused",
    ),
    LevelEffects("transaction.version", 1, "transaction state with fields that older brokers skip", "KIP-890"),
    LevelEffects(
        "transaction.version", 2, "a new producer epoch for each transaction; Java producers of 4.0 and newer use it "
        "once they connect anew", "KIP-890, TransactionVersion",
    ),
    LevelEffects(
        ELIGIBLE_LEADER_REPLICAS, 1, "replicas that left the ISR and have all committed records can still be elected",
        "KIP-966, ConfigurationControlManager",
        writes="min.insync.replicas for all brokers, unless a request has set one: the value of the active "
        "controller's own file; removes those of single brokers",
        caution="while it is on, min.insync.replicas cannot be set for single brokers, nor be removed for all; a "
        "broker that was killed leaves its ISRs as it registers again",
        after_downgrade="the min.insync.replicas that was written for all brokers stays",
    ),
    LevelEffects(
        "share.version", 1, "share groups (Kafka 4.1: a preview)", "KIP-932, ShareVersion",
        caution="the first share group creates the topic __share_group_state",
        after_downgrade="members of share groups are refused",
    ),
    LevelEffects(
        "share.version", 2, "dead-letter queues of share groups", "KIP-1191, ShareVersion",
        after_downgrade="records that are given up are dropped as before",
    ),
    LevelEffects(
        "streams.version", 1, "Kafka Streams with group.protocol=streams", "KIP-1071, StreamsVersion",
        caution="on Kafka 4.2.0 do not turn a classic group into a streams group (KAFKA-20254, mended in 4.2.1)",
        after_downgrade="members that use group.protocol=streams are refused",
    ),
)  # fmt: skip
"""Every level that Kafka ships, up to 4.4."""


def effects_of(change: UpdateFeature) -> tuple[str, ...]:
    """Lines for a step in a plan: the effects of each level that the change passes. If they are many, a line that
    counts the hidden ones, and the last `SHOWN`: these include the effects that cannot be undone.
    """
    lines = tuple(_turned_off(change) if change.is_downgrade else _turned_on(change))
    hidden = len(lines) - SHOWN  # a single hidden line is shown: the line that counts it would take as much room
    return (f"{hidden} more levels: {ALL_OF_THEM}", *lines[hidden:]) if hidden > 1 else lines


def levels_of(change: UpdateFeature) -> tuple[LevelEffects, ...]:
    """Rows of the levels that the change passes: above the lower level, up to the upper one, in the order of the
    table.
    """
    lower, upper = sorted((change.from_level, change.to_level))
    return tuple(row for row in ROWS if row.feature == change.feature and lower < row.level <= upper)


def lines_of(row: LevelEffects) -> Iterator[str]:
    """Effects of a raise to this level, a line each; none where it has none."""
    if row.turns_on:
        yield f"turns on: {row.turns_on} ({row.source.split(',')[0]})"
    if row.writes:
        yield f"writes: {row.writes}"
    if row.caution:
        yield f"note: {row.caution}"


def _turned_on(change: UpdateFeature) -> Iterator[str]:
    rows = levels_of(change)
    lines = [f"{_title(row, rows)}{line}" for row in rows for line in lines_of(row)]
    yield from lines
    unknown = change.to_level - max((row.level for row in rows), default=change.from_level)  # levels above the table
    if unknown:
        yield f"what level {change.to_level} does is not known"
    elif not lines:
        yield "turns on nothing by itself"


def _turned_off(change: UpdateFeature) -> Iterator[str]:
    rows = levels_of(change)
    if change.from_level > max((row.level for row in rows), default=change.to_level):
        yield f"what level {change.from_level} does is not known"
    for row in reversed(rows):
        if row.turns_on:
            yield f"{_title(row, rows)}turns off: {row.turns_on}"
        if row.after_downgrade:
            yield f"{_title(row, rows)}then: {row.after_downgrade}"


def _title(row: LevelEffects, rows: tuple[LevelEffects, ...]) -> str:
    """Prefix of a line with its level; empty if the step passes a single level."""
    return f"level {format_level(row.feature, row.level)} " if len(rows) > 1 else ""
