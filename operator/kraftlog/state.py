"""Mutable state behind an image, to which `rules` apply records.

It counts its memory: `weight` is an upper estimate of the bytes that its content takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from kraftlog.errors import ContradictionError
from kraftlog.image import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    FinalizedFeatures,
    FormerLevels,
    Migration,
    Moves,
    Quorum,
    Registrations,
    Section,
    Voter,
)
from kraftlog.maps import VersionedMap

if TYPE_CHECKING:
    from kraftlog.clients import Clients, ClientState
    from kraftlog.configs import Configs, ConfigState
    from kraftlog.partition_state import PartitionState
    from kraftlog.partitions import Partitions

KRAFT_VERSION_FEATURE = "kraft.version"

# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_NODE, _ENDPOINT, _RANGE, _LEVEL, _NUMBER = 1000, 200, 300, 200, 200

Data = Mapping[str, Any]


class State:
    """The state of all requested sections. Its fields mean the same as those of the sections in `image`."""

    __slots__ = (
        "began_mid_log",
        "began_ms",
        "began_offset",
        "brokers",
        "clients",
        "configs",
        "controllers",
        "dropped",
        "elapsed_ms",
        "feature_record_kraft_version",
        "features",
        "features_offset",
        "kraft_version",
        "leader_id",
        "moves",
        "offset",
        "partitions",
        "registered",
        "returned",
        "snapshot_timestamp_ms",
        "timestamp_ms",
        "unregistered",
        "voters",
        "voters_weight",
        "zk_migration_state",
    )

    def __init__(self, sections: Iterable[Section]) -> None:
        self.brokers: VersionedMap[int, BrokerRegistration] = VersionedMap(_weight_of_node)
        self.controllers: VersionedMap[int, ControllerRegistration] = VersionedMap(_weight_of_node)
        self.features: VersionedMap[str, int] = VersionedMap(_weight_of_level)
        self.features_offset = 0
        self.dropped: VersionedMap[tuple[str, int], int] = VersionedMap(_weight_of_dropped)
        self.moves = _no_moves()
        # True if earlier records were left out: the first record of a feature's level then counts as a change.
        self.began_mid_log = False
        self.began_offset, self.began_ms = 0, -1  # end of the snapshot that was read first
        self.offset = 0  # the end of the batch whose records are being applied
        self.timestamp_ms = -1  # of that batch
        self.elapsed_ms = 0  # up to that batch, since the first one
        self.unregistered: VersionedMap[int, int] = VersionedMap(_weight_of_number)
        self.registered: VersionedMap[int, int] = VersionedMap(_weight_of_number)
        self.returned: VersionedMap[int, int] = VersionedMap(_weight_of_number)
        self.feature_record_kraft_version: int | None = None
        self.kraft_version = 0
        self.voters: tuple[Voter, ...] | None = None
        self.voters_weight = 0
        self.zk_migration_state: int | None = None
        self.leader_id: int | None = None
        self.snapshot_timestamp_ms = -1
        self.partitions = _partitions() if Section.PARTITIONS in sections else None
        self.clients = _clients() if Section.CLIENTS in sections else None
        self.configs = _configs() if Section.CONFIGS in sections else None

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        nodes = self.brokers, self.controllers, self.unregistered, self.registered, self.returned
        maps = *nodes, self.features, self.dropped, self.moves
        large = self.partitions, self.clients, self.configs
        large_weight = sum(each.weight for each in large if each is not None)
        return self.voters_weight + large_weight + sum(each.weight for each in maps)

    def begin_with_snapshot(self, end_offset: int) -> None:
        """Note that a complete snapshot was read: it has neither times of changes nor the leader."""
        self.leader_id = None
        self.features_offset = self.began_offset = end_offset
        self.began_ms = self.snapshot_timestamp_ms
        self.moves = _no_moves()

    def section(
        self, section: Section
    ) -> Registrations | FinalizedFeatures | Quorum | Migration | Partitions | Clients | Configs:
        """An immutable view of a section that was requested; later changes have no effect on it."""
        match section:
            case Section.REGISTRATIONS:
                nodes = self.brokers.view(), self.controllers.view()
                return Registrations(*nodes, self.unregistered.view(), self.registered.view(), self.returned.view())
            case Section.FEATURES:
                kraft = self.kraft_version, self.feature_record_kraft_version
                former = FormerLevels(self.dropped.view(), self.began_offset, self.began_ms, self.moves.view())
                return FinalizedFeatures(self.features.view(), *kraft, self.features_offset, former)
            case Section.QUORUM:
                return Quorum(self.voters, self.leader_id)
            case Section.MIGRATION:
                return Migration(self.zk_migration_state)
            case Section.PARTITIONS:
                return self.requested_partitions.view()
            case Section.CLIENTS:
                return self.requested_clients.view()
            case Section.CONFIGS:
                return self.requested_configs.view()

    @property
    def requested_partitions(self) -> PartitionState:
        """State of the partitions, for callers that know that the section was requested."""
        assert self.partitions is not None  # noqa: S101 - the rules, and the section, are used only with them
        return self.partitions

    @property
    def requested_clients(self) -> ClientState:
        """State of the clients, for callers that know that the section was requested."""
        assert self.clients is not None  # noqa: S101 - the rules, and the section, are used only with them
        return self.clients

    @property
    def requested_configs(self) -> ConfigState:
        """State of the configs, for callers that know that the section was requested."""
        assert self.configs is not None  # noqa: S101 - the rules, and the section, are used only with them
        return self.configs

    def leave_out(self, section: Section) -> None:
        """Drop the content of a section; only the large ones are worth it."""
        match section:
            case Section.PARTITIONS:
                # Configs have names of topics, and records that remove topics have ids: only the partitions had both.
                if self.configs is not None and self.partitions is not None:
                    for topic in self.partitions.topics.view().values():
                        self.configs.topics.put(topic.id_bytes, topic.name)
                self.partitions = None
            case Section.CLIENTS:
                self.clients = None
            case Section.CONFIGS:
                self.configs = None
            case _:
                pass

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """The registration a record is about. Raises ContradictionError for an id or epoch that is not registered."""
        registration = self.brokers.get(broker_id)
        if registration is None or registration.epoch != epoch:
            raise ContradictionError(f"broker {broker_id} is not registered with epoch {epoch}")
        return registration


def _partitions() -> PartitionState:
    from kraftlog.partition_state import PartitionState  # numpy, which most readers do without

    return PartitionState()


def _clients() -> ClientState:
    from kraftlog.clients import ClientState

    return ClientState()


def _configs() -> ConfigState:
    from kraftlog.configs import ConfigState

    return ConfigState()


def _weight_of_endpoints(endpoints: tuple[Endpoint, ...]) -> int:
    return sum(_ENDPOINT + getsizeof(endpoint.name) + getsizeof(endpoint.host) for endpoint in endpoints)


def _weight_of_node(_: int, node: BrokerRegistration | ControllerRegistration) -> int:
    rack = getsizeof(node.rack) if isinstance(node, BrokerRegistration) else 0
    return _NODE + rack + _weight_of_endpoints(node.endpoints) + sum(_RANGE + getsizeof(name) for name in node.features)


def _weight_of_level(name: str, _: int) -> int:
    return _LEVEL + getsizeof(name)


def _weight_of_dropped(key: tuple[str, int], _: int) -> int:  # no lambda: checkpoints pickle a state
    return _weight_of_level(*key)


def _weight_of_number(_: int, __: int) -> int:
    return _NUMBER


def _weight_of_moves(name: str, moves: Moves) -> int:
    return _LEVEL * (1 + len(moves)) + getsizeof(name)


def weight_of_voters(voters: tuple[Voter, ...]) -> int:
    """Bytes of the voters of a quorum."""
    return sum(_NODE + _weight_of_endpoints(voter.endpoints) for voter in voters)


def _no_moves() -> VersionedMap[str, Moves]:
    return VersionedMap(_weight_of_moves)
