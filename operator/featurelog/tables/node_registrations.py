"""The table `node_registrations`: the brokers and controllers, each with the period of its registration, and possible
ghosts.

`kraftlog.ghosts` decides which may be ghosts (registrations of nodes that no longer exist); the texts are made here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.history import BROKER, History, Registered
from featurelog.tables.table import EVIDENCE, RANGES, SPAN, TIME, WHERE, Column, Row, Table, ranges_of
from featurelog.tables.tracks import Version
from kraftlog.ghosts import may_be_ghost
from kraftlog.image import BrokerRegistration, ControllerRegistration

_ENDPOINT = pa.struct(
    [
        pa.field("name", pa.string()), pa.field("host", pa.string()), pa.field("port", pa.int32()),
        pa.field("security_protocol", pa.int16()),
    ]
)  # fmt: skip

TABLE = Table(
    "node_registrations",
    "A row for each period in which the registration of a node did not change; a change record begins a new row.",
    ("cluster", "cluster_id", "role", "node_id", "from_offset"),
    (
        *WHERE,
        Column("role", pa.string(), "`broker` or `controller`; a node that is both registers twice"),
        Column("node_id", pa.int32(), "id of the node"),
        Column("incarnation_id", pa.string(), "id of the process that registered; each start has a new id"),
        Column("node_epoch", pa.int64(), "broker epoch; null for a controller"),
        *SPAN,
        *EVIDENCE,
        Column("is_current", pa.bool_(), "true at the end of the log that was read"),
        Column("registered_node", pa.string(), "folder of the node whose copy has the registration record"),
        Column("registered_file", pa.string(), "file in that folder"),
        Column(
            "registered_offset", pa.int64(), "offset of that record; if only a snapshot has it, the end of the snapshot"
        ),
        Column("registered_ts", TIME, "when the node registered; for a snapshot, the latest possible time"),
        Column(
            "last_evidence_node",
            pa.string(),
            "folder of the node whose copy has the last record or snapshot about this registration",
        ),
        Column("last_evidence_file", pa.string(), "file in that folder"),
        Column("last_evidence_offset", pa.int64(), "its offset"),
        Column("last_evidence_ts", TIME, "its time"),
        Column(
            "endpoints",
            pa.list_(_ENDPOINT),
            "listeners; security_protocol is Kafka's number, -1: not stated",
        ),
        Column("rack", pa.string(), "rack; null: none, or a controller"),
        Column("features", RANGES, "supported range of levels by feature"),
        Column("fenced", pa.bool_(), "whether the broker is fenced; null for a controller"),
        Column("in_controlled_shutdown", pa.bool_(), "whether the broker is shutting down; null for a controller"),
        Column("is_migrating_zk_broker", pa.bool_(), "whether the broker is in ZooKeeper mode; null for a controller"),
        Column("zk_migration_ready", pa.bool_(), "whether the controller is ready for a migration; null for a broker"),
        Column(
            "is_voter", pa.bool_(), "whether the controller votes at the end of the log; null: a broker, or not known"
        ),
        Column(
            "ghost_suspect",
            pa.bool_(),
            "whether a current registration may be a ghost registration; null: it has ended, or not known",
        ),
        Column("ghost_reason", pa.string(), "why it may be a ghost registration"),
    ),
)


def rows(history: History, fenced_for_ms: int) -> Iterator[Row]:
    """The rows of one cluster."""
    for version in history.nodes.versions:
        role, id_ = version.key
        registration = version.value.registration
        suspect, ghost_reason = ghost(history, version, fenced_for_ms)
        by, last = version.value.by, version.last
        is_voter = None if role == BROKER or history.voters is None else id_ in history.voters
        yield {
            "role": role,
            "node_id": id_,
            "incarnation_id": str(registration.incarnation),
            **version.as_columns(history.committed_below),
            "is_current": version.end is None,
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
            "ghost_reason": ghost_reason or None,
        }  # fmt: skip


def _of_role(registration: BrokerRegistration | ControllerRegistration) -> Row:
    if isinstance(registration, BrokerRegistration):
        return {
            "node_epoch": registration.epoch, "rack": registration.rack, "fenced": registration.fenced,
            "in_controlled_shutdown": registration.in_controlled_shutdown,
            "is_migrating_zk_broker": registration.is_migrating_zk_broker,
            "zk_migration_ready": None,
        }  # fmt: skip
    return {
        "node_epoch": None, "rack": None, "fenced": None, "in_controlled_shutdown": None,
        "is_migrating_zk_broker": None,
        "zk_migration_ready": registration.zk_migration_ready,
    }  # fmt: skip


def ghost(history: History, version: Version[Registered], fenced_for_ms: int) -> tuple[bool | None, str]:
    """(True if a registration may be a ghost, None if it ended or that is unknown; the reason)."""
    if version.end is not None:
        return None, ""
    registration = version.value.registration
    since, end = version.value.fenced_since, history.end_ms
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
    minutes = (end - since) // 60_000
    days, hours = divmod(minutes // 60, 24)
    span = f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} minutes"
    return True, f"fenced for {span} at the end of what was read"
