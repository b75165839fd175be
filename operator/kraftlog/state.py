"""The state behind an image, and what each record type does to it: a table from type to rule.

Called by `replay` with decoded records in offset order, transactions already sorted out. A rule that finds the state in
contradiction to its record (a change for another broker epoch: Kafka's ClusterDelta refuses it) raises
ContradictionError and changes nothing. Never decodes.

It knows what it weighs: the bytes of memory that its content takes, rather too many than too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from sys import getsizeof
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kraftlog.errors import ContradictionError
from kraftlog.image import (
    MOST_MOVES,
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
from kraftlog.maps import FrozenMap, VersionedMap
from kraftlog.schema import table

if TYPE_CHECKING:
    from kraftlog.clients import Clients, ClientState
    from kraftlog.partition_state import PartitionState
    from kraftlog.partitions import Partitions

KRAFT_VERSION_FEATURE = "kraft.version"

# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_NODE, _ENDPOINT, _RANGE, _LEVEL, _NUMBER = 1000, 200, 300, 200, 200

Data = Mapping[str, Any]


class State:
    """Everything the rules write to."""

    __slots__ = (
        "began_anywhere",
        "began_ms",
        "began_offset",
        "brokers",
        "clients",
        "controllers",
        "feature_record_kraft_version",
        "features",
        "features_offset",
        "kraft_version",
        "leader_id",
        "left",
        "moves",
        "offset",
        "partitions",
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
        self.left: VersionedMap[tuple[str, int], int] = VersionedMap(lambda key, _: _weight_of_level(*key))
        self.moves = _no_moves()
        self.began_anywhere = False  # so the first record of a level may be a move, whatever it says
        self.began_offset, self.began_ms = 0, -1  # the snapshot that was read first
        self.offset = 0  # the end of the batch whose records are being applied
        self.timestamp_ms = -1  # of that batch
        self.unregistered: VersionedMap[int, int] = VersionedMap(lambda _, __: _NUMBER)
        self.feature_record_kraft_version: int | None = None
        self.kraft_version = 0
        self.voters: tuple[Voter, ...] | None = None
        self.voters_weight = 0
        self.zk_migration_state: int | None = None
        self.leader_id: int | None = None
        self.snapshot_timestamp_ms = -1
        self.partitions = _partitions() if Section.PARTITIONS in sections else None
        self.clients = _clients() if Section.CLIENTS in sections else None

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        kept = self.brokers, self.controllers, self.unregistered, self.features, self.left, self.moves
        partitions = self.partitions.weight if self.partitions is not None else 0
        clients = self.clients.weight if self.clients is not None else 0
        return self.voters_weight + partitions + clients + sum(each.weight for each in kept)

    def begin_with_snapshot(self, end_offset: int) -> None:
        """All of it was read: it says what is so, and not since when, nor who leads."""
        self.leader_id = None
        self.features_offset = self.began_offset = end_offset
        self.began_ms = self.snapshot_timestamp_ms
        self.moves = _no_moves()

    def section(
        self, section: Section
    ) -> Registrations | FinalizedFeatures | Quorum | Migration | Partitions | Clients:
        """What is in a section now; later writes do not show. Of the partitions only where they were asked for."""
        match section:
            case Section.REGISTRATIONS:
                return Registrations(self.brokers.view(), self.controllers.view(), self.unregistered.view())
            case Section.FEATURES:
                kraft = self.kraft_version, self.feature_record_kraft_version
                former = FormerLevels(self.left.view(), self.began_offset, self.began_ms, self.moves.view())
                return FinalizedFeatures(self.features.view(), *kraft, self.features_offset, former)
            case Section.QUORUM:
                return Quorum(self.voters, self.leader_id)
            case Section.MIGRATION:
                return Migration(self.zk_migration_state)
            case Section.PARTITIONS:
                return self.all_partitions.view()
            case Section.CLIENTS:
                return self.all_clients.view()

    @property
    def all_partitions(self) -> PartitionState:
        """Where they were asked for."""
        assert self.partitions is not None  # noqa: S101 - the rules, and the section, are used only with them
        return self.partitions

    @property
    def all_clients(self) -> ClientState:
        """Where they were asked for."""
        assert self.clients is not None  # noqa: S101 - the rules, and the section, are used only with them
        return self.clients

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """The registration a record is about. Raises ContradictionError for an id or epoch that is not registered."""
        found = self.brokers.get(broker_id)
        if found is None or found.epoch != epoch:
            raise ContradictionError(f"broker {broker_id} is not registered with epoch {epoch}")
        return found


def _partitions() -> PartitionState:
    from kraftlog.partition_state import PartitionState  # numpy, which most readers do without

    return PartitionState()


def _clients() -> ClientState:
    from kraftlog.clients import ClientState

    return ClientState()


def _weight_of_endpoints(endpoints: tuple[Endpoint, ...]) -> int:
    return sum(_ENDPOINT + getsizeof(one.name) + getsizeof(one.host) for one in endpoints)


def _weight_of_node(_: int, node: BrokerRegistration | ControllerRegistration) -> int:
    rack = getsizeof(node.rack) if isinstance(node, BrokerRegistration) else 0
    return _NODE + rack + _weight_of_endpoints(node.endpoints) + sum(_RANGE + getsizeof(name) for name in node.features)


def _weight_of_level(name: str, _: int) -> int:
    return _LEVEL + getsizeof(name)


def _no_moves() -> VersionedMap[str, Moves]:
    return VersionedMap(lambda name, moves: _LEVEL * (1 + len(moves)) + getsizeof(name))


def _endpoints(items: tuple[Data, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e["name"], e["host"], e["port"], e.get("securityProtocol", -1)) for e in items)


def ranges_of(items: tuple[Data, ...]) -> Mapping[str, tuple[int, int]]:
    """The supported (min, max) of each feature that a registration names."""
    return FrozenMap({f["name"]: (f["minSupportedVersion"], f["maxSupportedVersion"]) for f in items})


def _register_broker(state: State, data: Data) -> None:
    broker_id = data["brokerId"]
    state.unregistered.drop(broker_id)
    state.brokers.put(
        broker_id,
        BrokerRegistration(
            id=broker_id,
            epoch=data["brokerEpoch"],
            incarnation=data["incarnationId"],
            endpoints=_endpoints(data["endPoints"]),
            features=ranges_of(data["features"]),
            rack=data["rack"],
            fenced=data["fenced"],
            in_controlled_shutdown=data.get("inControlledShutdown", False),
            is_migrating_zk_broker=data.get("isMigratingZkBroker", False),
        ),
    )


def _unregister_broker(state: State, data: Data) -> None:
    broker_id = state.broker(data["brokerId"], data["brokerEpoch"]).id
    state.brokers.drop(broker_id)
    state.unregistered.put(broker_id, state.timestamp_ms)


def _fence(state: State, data: Data) -> None:
    state.brokers.put(data["id"], replace(state.broker(data["id"], data["epoch"]), fenced=True))


def _unfence(state: State, data: Data) -> None:
    state.brokers.put(data["id"], replace(state.broker(data["id"], data["epoch"]), fenced=False))


_FENCED = {-1: False, 0: None, 1: True}  # BrokerRegistrationFencingChange.java
_SHUTDOWN = {0: None, 1: True}  # BrokerRegistrationInControlledShutdownChange.java


def _change_broker(state: State, data: Data) -> None:
    now = state.broker(data["brokerId"], data["brokerEpoch"])
    fenced, shutdown = data.get("fenced", 0), data.get("inControlledShutdown", 0)
    if fenced not in _FENCED or shutdown not in _SHUTDOWN:
        raise ContradictionError(
            f"unknown change of broker {now.id}: fenced {fenced}, in controlled shutdown {shutdown}"
        )
    changed = replace(
        now,
        fenced=now.fenced if _FENCED[fenced] is None else bool(_FENCED[fenced]),
        in_controlled_shutdown=now.in_controlled_shutdown or bool(_SHUTDOWN[shutdown]),
    )
    state.brokers.put(now.id, changed)


def _register_controller(state: State, data: Data) -> None:
    controller_id = data["controllerId"]
    state.unregistered.drop(controller_id)
    state.controllers.put(
        controller_id,
        ControllerRegistration(
            id=controller_id,
            incarnation=data["incarnationId"],
            zk_migration_ready=data["zkMigrationReady"],
            endpoints=_endpoints(data["endPoints"]),
            features=ranges_of(data["features"]),
        ),
    )


def _unregister_controller(state: State, data: Data) -> None:
    state.controllers.drop(data["controllerId"])  # without an epoch, so nothing can contradict it
    state.unregistered.put(data["controllerId"], state.timestamp_ms)


def _feature_level(state: State, data: Data) -> None:
    # The range of 3.0 to 3.2 finalized a maximum; its minimum was dropped by KIP-778.
    _set_level(state, data["name"], data["featureLevel"] if "featureLevel" in data else data["maxFeatureLevel"])


def _remove_feature_level(state: State, data: Data) -> None:
    _set_level(state, data["name"], 0)


def _set_level(state: State, name: str, level: int) -> None:
    state.features_offset = state.offset
    if name == KRAFT_VERSION_FEATURE:
        state.feature_record_kraft_version = level or None
        return
    before = state.features.get(name)
    if before is not None and before != level:
        state.left.put((name, before), state.timestamp_ms)
    if (before or 0) != level or (state.began_anywhere and state.moves.get(name) is None):
        _moved(state, name, level)
    if level == 0:
        state.features.drop(name)
    else:
        state.features.put(name, level)


def _zk_migration_state(state: State, data: Data) -> None:
    state.zk_migration_state = data["zkMigrationState"]


def _leader_change(state: State, data: Data) -> None:
    state.leader_id = data["leaderId"]


def _snapshot_header(state: State, data: Data) -> None:
    state.snapshot_timestamp_ms = data["lastContainedLogTimestamp"]


def _snapshot_footer(state: State, data: Data) -> None:
    """Says only that the file is whole, which is `replay`'s to check."""


def _moved(state: State, name: str, level: int) -> None:
    state.moves.put(name, (*(state.moves.get(name) or ()), (state.offset, level))[-MOST_MOVES:])


def _kraft_version(state: State, data: Data) -> None:
    if state.kraft_version != data["kRaftVersion"]:
        _moved(state, KRAFT_VERSION_FEATURE, data["kRaftVersion"])
    state.kraft_version = data["kRaftVersion"]
    state.features_offset = state.offset


def _kraft_voters(state: State, data: Data) -> None:
    state.voters = tuple(
        Voter(
            v["voterId"],
            v["voterDirectoryId"],
            _endpoints(v["endpoints"]),
            (v["kRaftVersionFeature"]["minSupportedVersion"], v["kRaftVersionFeature"]["maxSupportedVersion"]),
        )
        for v in data["voters"]
    )
    state.voters_weight = sum(_NODE + _weight_of_endpoints(voter.endpoints) for voter in state.voters)


Rules = Mapping[int, Callable[[State, Data], None]]

_OTHERS = {name: key for key, name in table.OTHER_NAMES.items()}  # their layouts are not loaded for this

# Keyed by api key. What is not here changes nothing in an image, so it need not be decoded: NoOp, above all.
METADATA_RULES: Mapping[Section, Rules] = MappingProxyType(
    {
        Section.REGISTRATIONS: {
            table.REGISTER_BROKER.key: _register_broker,
            table.UNREGISTER_BROKER.key: _unregister_broker,
            table.FENCE_BROKER.key: _fence,
            table.UNFENCE_BROKER.key: _unfence,
            table.BROKER_REGISTRATION_CHANGE.key: _change_broker,
            table.REGISTER_CONTROLLER.key: _register_controller,
            table.UNREGISTER_CONTROLLER.key: _unregister_controller,
        },
        Section.FEATURES: {
            table.FEATURE_LEVEL.key: _feature_level,
            table.REMOVE_FEATURE_LEVEL.key: _remove_feature_level,
        },
        Section.QUORUM: {},
        Section.MIGRATION: {table.ZK_MIGRATION_STATE.key: _zk_migration_state},
        Section.PARTITIONS: {
            table.TOPIC.key: lambda state, data: state.all_partitions.topic(data),
            table.REMOVE_TOPIC.key: lambda state, data: state.all_partitions.remove_topic(data),
            table.PARTITION.key: lambda state, data: state.all_partitions.partition(data),
            table.PARTITION_CHANGE.key: lambda state, data: state.all_partitions.change(data),
            table.CLEAR_ELR.key: lambda state, data: state.all_partitions.clear_elr(data),
            table.CONFIG.key: lambda state, data: state.all_partitions.config(data),
        },
        Section.CLIENTS: {
            _OTHERS["ACCESS_CONTROL_RECORD"]: lambda state, data: state.all_clients.grant_without_id(data),
            _OTHERS["ACCESS_CONTROL_ENTRY_RECORD"]: lambda state, data: state.all_clients.grant(data),
            _OTHERS["REMOVE_ACCESS_CONTROL_ENTRY_RECORD"]: lambda state, data: state.all_clients.revoke(data),
            _OTHERS["USER_SCRAM_CREDENTIAL_RECORD"]: lambda state, data: state.all_clients.scram(data),
            _OTHERS["REMOVE_USER_SCRAM_CREDENTIAL_RECORD"]: lambda state, data: state.all_clients.remove_scram(data),
            _OTHERS["DELEGATION_TOKEN_RECORD"]: lambda state, data: state.all_clients.token(data),
            _OTHERS["REMOVE_DELEGATION_TOKEN_RECORD"]: lambda state, data: state.all_clients.remove_token(data),
            _OTHERS["CLIENT_QUOTA_RECORD"]: lambda state, data: state.all_clients.quota(data),
            _OTHERS["PRODUCER_IDS_RECORD"]: lambda state, data: state.all_clients.producer_ids(data),
        },
    }
)
# Keyed by the type number of the control record. They are few, and all are read: a snapshot begins and ends with one.
CONTROL_RULES: Rules = MappingProxyType(
    {
        table.LEADER_CHANGE.key: _leader_change,
        table.SNAPSHOT_HEADER.key: _snapshot_header,
        table.SNAPSHOT_FOOTER.key: _snapshot_footer,
        table.KRAFT_VERSION.key: _kraft_version,
        table.KRAFT_VOTERS.key: _kraft_voters,
    }
)
