"""`node_registrations`: which brokers and controllers were registered from when to when, and which may be ghosts.

Which may be ghosts (registered, but no such node exists any more) is `kraftlog.ghosts`'s to say; the words are here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.history import BROKER, History, Registered
from featurelog.tables.table import EVIDENCE, RANGES, SPAN, TIME, WHERE, Column, Row, Table, ranges_of
from featurelog.tables.tracks import Version
from kraftlog.ghosts import FENCED_FOR_MS, may_be_ghost
from kraftlog.image import BrokerRegistration, ControllerRegistration

_ENDPOINT = pa.struct(
    [
        pa.field("name", pa.string()), pa.field("host", pa.string()), pa.field("port", pa.int32()),
        pa.field("security_protocol", pa.int16()),
    ]
)  # fmt: skip

TABLE = Table(
    "node_registrations",
    "A row for each time in which a node was registered in the same way: what a change record says begins a new one.",
    ("cluster", "cluster_id", "role", "node_id", "from_offset"),
    (
        *WHERE,
        Column("role", pa.string(), "`broker` or `controller`; a node that is both registers twice"),
        Column("node_id", pa.int32(), "its id"),
        Column("incarnation_id", pa.string(), "of the process that registered; each start has a new one"),
        Column("node_epoch", pa.int64(), "broker epoch; null for a controller"),
        *SPAN,
        *EVIDENCE,
        Column("is_current", pa.bool_(), "it holds at the end of what was read"),
        Column("registered_node", pa.string(), "where the record lies with which it registered: folder of the node"),
        Column("registered_file", pa.string(), "and file"),
        Column("registered_offset", pa.int64(), "and offset; the end of the snapshot where only that has it"),
        Column("registered_ts", TIME, "when it registered; of a snapshot, the latest time that it can have been"),
        Column(
            "last_evidence_node",
            pa.string(),
            "the last record, or snapshot, that says anything of it: folder of the node",
        ),
        Column("last_evidence_file", pa.string(), "and file"),
        Column("last_evidence_offset", pa.int64(), "and offset"),
        Column("last_evidence_ts", TIME, "and time"),
        Column(
            "endpoints",
            pa.list_(_ENDPOINT),
            "listeners; security_protocol as Kafka numbers it, -1 where it is not said",
        ),
        Column("rack", pa.string(), "rack; null: none, or a controller"),
        Column("features", RANGES, "feature to the range of levels that it supports"),
        Column("fenced", pa.bool_(), "null for a controller"),
        Column("in_controlled_shutdown", pa.bool_(), "null for a controller"),
        Column("is_migrating_zk_broker", pa.bool_(), "it still runs in ZooKeeper mode; null for a controller"),
        Column("zk_migration_ready", pa.bool_(), "null for a broker"),
        Column(
            "is_voter", pa.bool_(), "a controller that votes at the end of what was read; null: a broker, or not known"
        ),
        Column(
            "ghost_suspect",
            pa.bool_(),
            "of a current registration, whether it may be a ghost's; null: ended, or not known",
        ),
        Column("ghost_reason", pa.string(), "why"),
    ),
)


def table(history: History, fenced_for_ms: int = FENCED_FOR_MS) -> pa.Table:
    """The table of one cluster."""
    return TABLE.of(_rows(history, fenced_for_ms))


def _rows(history: History, fenced_for_ms: int) -> Iterator[Row]:
    for one in history.nodes.versions:
        role, id_ = one.key
        registration = one.value.registration
        suspect, why = ghost(history, one, fenced_for_ms)
        by, last = one.value.by, one.last
        is_voter = None if role == BROKER or history.voters is None else id_ in history.voters
        yield {
            **history.cluster.as_columns(),
            "role": role,
            "node_id": id_,
            "incarnation_id": str(registration.incarnation),
            **one.as_columns(history.committed_below),
            "is_current": one.end is None,
            "registered_node": by.node, "registered_file": by.file, "registered_offset": by.offset,
            "registered_ts": by.at_ms,
            "last_evidence_node": last.node, "last_evidence_file": last.file, "last_evidence_offset": last.offset,
            "last_evidence_ts": last.at_ms,
            "endpoints": [
                {"name": e.name, "host": e.host, "port": e.port, "security_protocol": e.security_protocol}
                for e in registration.endpoints
            ],
            "features": ranges_of(registration.features),
            **_of_role(registration),
            "is_voter": is_voter,
            "ghost_suspect": suspect,
            "ghost_reason": why or None,
        }  # fmt: skip


def _of_role(one: BrokerRegistration | ControllerRegistration) -> Row:
    if isinstance(one, BrokerRegistration):
        return {
            "node_epoch": one.epoch, "rack": one.rack, "fenced": one.fenced,
            "in_controlled_shutdown": one.in_controlled_shutdown, "is_migrating_zk_broker": one.is_migrating_zk_broker,
            "zk_migration_ready": None,
        }  # fmt: skip
    return {
        "node_epoch": None, "rack": None, "fenced": None, "in_controlled_shutdown": None,
        "is_migrating_zk_broker": None,
        "zk_migration_ready": one.zk_migration_ready,
    }  # fmt: skip


def ghost(history: History, one: Version[Registered], fenced_for_ms: int) -> tuple[bool | None, str]:
    """Whether a registration may be a ghost's, and why; None where it ended, or where that is not known."""
    if one.end is not None:
        return None, ""
    registration = one.value.registration
    since, end = one.value.fenced_since, history.end_ms
    suspected = may_be_ghost(
        registration, voters=history.voters, fenced_since_ms=since, end_ms=end, fenced_for_ms=fenced_for_ms
    )
    if suspected is False:
        return False, ""
    if isinstance(registration, ControllerRegistration):
        unknown = "who votes is not known: neither a record of the log nor quorum-state says"
        return suspected, "registered as a controller, and not a voter" if suspected else unknown
    if since is None or end is None or not suspected:
        return None, "since when it is fenced is not known"
    return True, f"fenced for {(end - since) // 60_000} minutes at the end of what was read"
