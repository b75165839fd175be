"""Metadata that Kafka keeps in ZooKeeper, as far as a migration depends on it: znodes, parsed from their bytes.

Pure. Called by the modules of `zookeeper/` and by the simulator; the migration reads the values. Any client of the
ensemble may have written the bytes: what cannot be read is a `Failure` that names the path, never a default. An absent
znode is None. Formats are those of Kafka 3.9 (`kafka/zk/ZkData.scala`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.words import printable

T = TypeVar("T")
_ENDPOINT = re.compile(r"[^:/]*://\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]{1,5})")  # as `EndPoint.scala` reads it
_YEAR_10000 = 253_402_300_800_000  # in ms since 1970
Read: TypeAlias = T | Failure | None
"""Content of a znode, or a Failure where it could not be read, or None where it is absent."""


class Znode(Struct, frozen=True):
    """One znode as ZooKeeper has it.

    version: number of writes to it.
    czxid: id of the transaction that created it; of a broker's znode, Kafka uses it as the broker's epoch.
    mtime: last write, in milliseconds since 1970 by ZooKeeper's clock.
    """

    path: str
    data: bytes
    version: int
    czxid: int
    is_ephemeral: bool
    children: int = 0
    mtime: int = 0


class ControllerEpoch(Struct, frozen=True):
    """Content of `/controller_epoch`. version: version of the znode; like the epoch, it rises with each claim of
    `/controller`.
    """

    value: int
    version: int


class MigrationZnode(Struct, frozen=True):
    """Content of `/migration`: the position up to which the metadata log was written to ZooKeeper.

    offset, epoch: that position in the log; -1 where nothing was copied.
    text: the whole content, to be kept before the znode is deleted.
    written_at: by ZooKeeper's clock; an active controller writes it twice a second.
    """

    controller_id: int
    controller_epoch: int
    offset: int
    epoch: int
    version: int
    czxid: int
    text: str
    written_at: datetime


class StoreComparison(Struct, frozen=True):
    """Result of comparing everything that Kafka keeps in ZooKeeper with the metadata log.

    offset: end of the compared part of the log (exclusive).
    differences: number of differences. summary: all of them in words. examples: the first of them.
    took: duration of the comparison in seconds.
    digest: hash of the differences; empty for none.
    """

    at: datetime
    offset: int
    differences: int = 0
    summary: str = ""
    examples: tuple[str, ...] = ()
    took: float = 0.0
    digest: str = ""


class FeatureZnodeStatus(IntEnum):
    """`status` of `/feature` (KIP-584)."""

    DISABLED = 0
    ENABLED = 1


class FinalizedInZooKeeper(Struct, frozen=True):
    """Content of `/feature`: finalized levels in ZooKeeper mode. Kafka never shipped a feature that uses it."""

    status: FeatureZnodeStatus
    levels: Mapping[str, int]
    version: int


class RegisteredBroker(Struct, frozen=True):
    """Content of `/brokers/ids/<id>`: the registration of a broker in ZooKeeper mode.

    epoch: czxid of the znode.
    security: security protocol of each listener, by its name.
    """

    id: int
    epoch: int
    endpoints: tuple[str, ...]
    security: Mapping[str, str]

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each endpoint of the form `NAME://host:port`; other endpoints are left out."""
        matches = (_ENDPOINT.fullmatch(endpoint) for endpoint in self.endpoints)
        return tuple((match[1], int(match[2])) for match in matches if match is not None)


class ZooKeeperReading(Struct, frozen=True):
    """Znodes that a migration depends on, read in one session.

    ensemble: address of the ensemble, as the document names it.
    brokers: registered brokers, by id.
    deletions: topics that are to be deleted.
    reassigning: `/admin/reassign_partitions` has partitions.
    """

    at: datetime
    ensemble: str
    cluster_id: Read[str]
    controller: Read[ControllerClaim]
    controller_epoch: Read[ControllerEpoch]
    migration: Read[MigrationZnode]
    feature: Read[FinalizedInZooKeeper]
    brokers: Mapping[int, RegisteredBroker | Failure] | Failure
    deletions: tuple[str, ...] | Failure
    reassigning: bool | Failure

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Failures of all parts that could not be read."""
        readings = (
            self.cluster_id, self.controller, self.controller_epoch, self.migration, self.feature, self.brokers,
            self.deletions, self.reassigning,
        )  # fmt: skip
        brokers = () if isinstance(self.brokers, Failure) else self.brokers.values()
        return tuple(reading for reading in (*readings, *brokers) if isinstance(reading, Failure))


def of_another_cluster(ensemble_id: Read[str], ensemble: str, cluster_id: str) -> Failure | None:
    """Failure if the ensemble is not certainly that of this cluster, so that nothing read from it counts; else None.

    Called for every reading before it is used, and in the session of the only transaction that deletes znodes: an
    ensemble may keep many clusters, each below its own chroot, and all look alike. `ensemble_id`: content of its
    `/cluster/id`.
    """
    if isinstance(ensemble_id, Failure):
        return ensemble_id
    if ensemble_id == cluster_id:
        return None
    source, remedy = f"ZooKeeper {printable(ensemble)}", "set the ensemble and chroot of the brokers' zookeeper.connect"
    if ensemble_id is None:
        return Failure(FailureKind.WRONG_CLUSTER, source, "it has no znode /cluster/id", remedy)
    message = f"it is the ensemble of cluster {printable(ensemble_id)}, but the nodes belong to cluster {cluster_id}"
    return Failure(FailureKind.WRONG_CLUSTER, source, message, remedy)


# --- formats ---

Int = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Long = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
Level = Annotated[int, Meta(ge=-(2**15), lt=2**15)]
Id = Annotated[int, Meta(ge=0, lt=2**31)]


class _Cluster(Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=64)]


class _Controller(Struct, frozen=True):
    brokerid: Id
    kraft_epoch: Int = field(name="kraftControllerEpoch", default=-1)


class _Migration(Struct, frozen=True):
    kraft_controller_id: Int
    kraft_controller_epoch: Int
    kraft_metadata_offset: Long
    kraft_metadata_epoch: Int


class _Range(Struct, frozen=True):
    min_version_level: Level
    max_version_level: Level


class _Feature(Struct, frozen=True):
    version: Int
    status: Int
    features: Mapping[str, _Range | Level]


class _Broker(Struct, frozen=True):
    endpoints: tuple[str, ...]
    security: Mapping[str, str] = field(name="listener_security_protocol_map")


class _Reassignment(Struct, frozen=True):
    partitions: tuple[Any, ...]


def parsed(znode: Znode | Failure | None, reader: Callable[[Znode], T]) -> Read[T]:
    """Content of a znode, by one of the readers below. A damaged znode is a Failure that says which one, and how."""
    if znode is None or isinstance(znode, Failure):
        return znode
    try:
        return reader(znode)
    except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError, UnicodeDecodeError too
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error))[:200]
        return Failure(
            FailureKind.REJECTED,
            f"znode {znode.path}",
            f"cannot be read: {reason}",
            f"look at it: zookeeper-shell.sh HOST:PORT get {znode.path}",
        )


def cluster_id(znode: Znode) -> str:
    """Content of `/cluster/id`."""
    return _converted(znode, _Cluster).id


def controller(znode: Znode) -> ControllerClaim:
    """Content of `/controller`."""
    fields = _converted(znode, _Controller)
    return ControllerClaim(fields.brokerid, fields.kraft_epoch, znode.is_ephemeral, znode.czxid, znode.version)


def controller_epoch(znode: Znode) -> ControllerEpoch:
    """Content of `/controller_epoch`: a number, not a JSON document."""
    text = znode.data.decode("ascii")
    if not text.isdigit() or len(text) > 10 or int(text) >= 2**31:
        raise ValueError(f"expected an epoch, found {text[:20]!r}")
    return ControllerEpoch(int(text), znode.version)


def migration(znode: Znode) -> MigrationZnode:
    """Content of `/migration`. The first controller that starts with `zookeeper.metadata.migration.enable` creates it,
    with -1 in all fields.
    """
    fields = _converted(znode, _Migration)
    return MigrationZnode(
        fields.kraft_controller_id,
        fields.kraft_controller_epoch,
        fields.kraft_metadata_offset,
        fields.kraft_metadata_epoch,
        znode.version,
        znode.czxid,
        znode.data.decode(),
        _moment(znode.mtime),
    )


def _moment(ms: int) -> datetime:
    if not 0 <= ms < _YEAR_10000:
        raise ValueError(f"its time is out of range: {ms}")
    return datetime.fromtimestamp(ms / 1000, UTC)


def feature(znode: Znode) -> FinalizedInZooKeeper:
    """Content of `/feature`, version 1 with ranges or 2 with levels (KIP-584; `FeatureZNode.decode`)."""
    fields = _converted(znode, _Feature)
    if fields.version < 1:
        raise ValueError(f"expected version 1 or newer, found {fields.version}")
    if fields.status not in (status.value for status in FeatureZnodeStatus):
        raise ValueError(f"expected status 0 or 1, found {fields.status}")
    levels = {name: _level(name, entry, ranges=fields.version == 1) for name, entry in fields.features.items()}
    return FinalizedInZooKeeper(FeatureZnodeStatus(fields.status), levels, znode.version)


def _level(name: str, entry: _Range | int, *, ranges: bool) -> int:
    """Finalized level of a feature. `ranges`: its entry has to be a range, whose highest level counts; else a level."""
    if isinstance(entry, _Range) is not ranges:
        raise ValueError(f"{name}: expected {'a range' if ranges else 'a level'}")
    if isinstance(entry, int):
        return entry
    if not 1 <= entry.min_version_level <= entry.max_version_level:
        raise ValueError(f"{name}: expected 1 <= min_version_level <= max_version_level")
    return entry.max_version_level


def broker(id_: int, znode: Znode) -> RegisteredBroker:
    """Content of `/brokers/ids/<id>`, version 4 or 5."""
    fields = _converted(znode, _Broker)
    return RegisteredBroker(id_, znode.czxid, fields.endpoints, fields.security)


def reassigns(znode: Znode) -> bool:
    """Tell whether `/admin/reassign_partitions` has partitions."""
    return bool(_converted(znode, _Reassignment).partitions)


def broker_ids(children: tuple[str, ...]) -> tuple[int, ...] | Failure:
    """Broker ids from the names of the children of `/brokers/ids`, sorted; Failure if a name is not an id."""
    wrong = [child for child in children if not (child.isascii() and child.isdigit() and len(child) <= 10)]
    if wrong:
        return Failure(
            FailureKind.REJECTED,
            "znode /brokers/ids",
            f"has a child whose name is not a broker id: {printable(wrong[0])[:60]}",
        )
    return tuple(sorted(map(int, children)))


class Ambiguous(ValueError):
    """A JSON object that has a key twice."""


def json_of(data: bytes) -> Any:
    """The JSON document in a znode. Raises ValueError (Ambiguous for a duplicate key) and RecursionError."""
    return json.loads(data.decode(), object_pairs_hook=_without_duplicates)


def _converted(znode: Znode, shape: type[T]) -> T:
    """The JSON document of a znode, checked and converted to this type. Raises ValueError and RecursionError."""
    return msgspec.convert(json_of(znode.data), shape)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The JSON object of these pairs. Raises Ambiguous for a key that occurs twice: Kafka takes the last of two equal
    keys, other readers may take the first.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Ambiguous("a key stands there twice")
    return fields
