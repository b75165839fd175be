"""Rules that apply records to the state behind an image: a table from record type to function.

`image_builder` applies them to decoded records in the order in which these take effect. If a record contradicts the
state (such as a change for another broker epoch, which Kafka's ClusterDelta refuses), the rule raises
ContradictionError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from kraftlog.errors import ContradictionError
from kraftlog.image import MOST_MOVES, BrokerRegistration, ControllerRegistration, Endpoint, Section, Voter
from kraftlog.maps import FrozenMap
from kraftlog.schema import table
from kraftlog.state import KRAFT_VERSION_FEATURE, Data, State, weight_of_voters


def _endpoints(items: tuple[Data, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e["name"], e["host"], e["port"], e.get("securityProtocol", -1)) for e in items)


def ranges_of(items: tuple[Data, ...]) -> Mapping[str, tuple[int, int]]:
    """The supported (min, max) of each feature that a registration names."""
    return FrozenMap({f["name"]: (f["minSupportedVersion"], f["maxSupportedVersion"]) for f in items})


def _register_broker(state: State, data: Data) -> None:
    broker_id = data["brokerId"]
    state.unregistered.drop(broker_id)
    state.registered.put(broker_id, state.elapsed_ms)
    state.returned.put(broker_id, state.elapsed_ms)
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
            log_dirs=tuple(data.get("logDirs", ())),
        ),
    )


def _unregister_broker(state: State, data: Data) -> None:
    broker_id = state.broker(data["brokerId"], data["brokerEpoch"]).id
    state.brokers.drop(broker_id)
    state.registered.drop(broker_id)
    _lost_registration(state, broker_id)
    state.unregistered.put(broker_id, state.timestamp_ms)


def _lost_registration(state: State, node_id: int) -> None:
    """Drop the time of the node's return, unless it is a combined node that still has its other registration."""
    if node_id not in state.brokers.view() and node_id not in state.controllers.view():
        state.returned.drop(node_id)


def _fence(state: State, data: Data) -> None:
    state.brokers.put(data["id"], replace(state.broker(data["id"], data["epoch"]), fenced=True))


def _unfence(state: State, data: Data) -> None:
    state.brokers.put(data["id"], replace(state.broker(data["id"], data["epoch"]), fenced=False))
    state.returned.put(data["id"], state.elapsed_ms)


_FENCED = {-1: False, 0: None, 1: True}  # BrokerRegistrationFencingChange.java
_SHUTDOWN = {0: None, 1: True}  # BrokerRegistrationInControlledShutdownChange.java


def _change_broker(state: State, data: Data) -> None:
    registration = state.broker(data["brokerId"], data["brokerEpoch"])
    fenced, shutdown = data.get("fenced", 0), data.get("inControlledShutdown", 0)
    if fenced not in _FENCED or shutdown not in _SHUTDOWN:
        raise ContradictionError(
            f"unknown change of broker {registration.id}: fenced {fenced}, in controlled shutdown {shutdown}"
        )
    changed = replace(
        registration,
        fenced=registration.fenced if _FENCED[fenced] is None else bool(_FENCED[fenced]),
        in_controlled_shutdown=registration.in_controlled_shutdown or bool(_SHUTDOWN[shutdown]),
        log_dirs=tuple(data.get("logDirs", ())) or registration.log_dirs,  # a change of the fencing names none
    )
    state.brokers.put(registration.id, changed)
    if registration.fenced and not changed.fenced:
        state.returned.put(registration.id, state.elapsed_ms)


def _register_controller(state: State, data: Data) -> None:
    controller_id = data["controllerId"]
    state.unregistered.drop(controller_id)
    state.returned.put(controller_id, state.elapsed_ms)
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
    _lost_registration(state, data["controllerId"])
    state.unregistered.put(data["controllerId"], state.timestamp_ms)


def _feature_level(state: State, data: Data) -> None:
    # The range of 3.0 to 3.2 finalized a maximum; its minimum was dropped by KIP-778.
    _set_level(state, data["name"], data["featureLevel"] if "featureLevel" in data else data["maxFeatureLevel"])


def _remove_feature_level(state: State, data: Data) -> None:
    _set_level(state, data["name"], 0)


def _set_level(state: State, name: str, level: int) -> None:
    """Apply a record of a finalized level; level 0 removes it. A record for kraft.version is only noted."""
    state.features_offset = state.offset
    if name == KRAFT_VERSION_FEATURE:
        state.feature_record_kraft_version = level or None
        return
    previous = state.features.get(name)
    if previous is not None and previous != level:
        state.dropped.put((name, previous), state.timestamp_ms)
    # If the log was not read from its beginning, the first record of a level counts as a change.
    if (previous or 0) != level or (state.began_mid_log and state.moves.get(name) is None):
        _note_level_change(state, name, level)
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
    """Nothing: the footer only marks the end of a snapshot, which `replay` checks."""


def _topic(state: State, data: Data) -> None:
    """Add a topic to the section of partitions, or without it to that of configs, which needs names only."""
    if state.partitions is not None:
        state.partitions.topic(data)
    else:
        state.requested_configs.topic(data)


def _remove_topic(state: State, data: Data) -> None:
    """Remove the topic with its partitions and configs."""
    partitions = state.partitions
    name = partitions.remove_topic(data) if partitions is not None else state.requested_configs.drop_topic(data)
    if state.configs is not None:
        state.configs.remove_topic(name)


def _config(state: State, data: Data) -> None:
    if state.configs is not None:
        state.configs.config(data)
    if state.partitions is not None:
        state.partitions.config(data)


def _scram(state: State, data: Data) -> None:
    """Add a credential to both sections that have some: clients without secrets, configs with digests of them."""
    for each in (state.clients, state.configs):
        if each is not None:
            each.scram(data)


def _remove_scram(state: State, data: Data) -> None:
    for each in (state.clients, state.configs):
        if each is not None:
            each.remove_scram(data)


def _note_level_change(state: State, name: str, level: int) -> None:
    """Remember that the level of a feature became this one, for the last changes of each feature."""
    state.moves.put(name, (*(state.moves.get(name) or ()), (state.offset, level))[-MOST_MOVES:])


def _kraft_version(state: State, data: Data) -> None:
    if state.kraft_version != data["kRaftVersion"]:
        _note_level_change(state, KRAFT_VERSION_FEATURE, data["kRaftVersion"])
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
    state.voters_weight = weight_of_voters(state.voters)


Rules = Mapping[int, Callable[[State, Data], None]]

_OTHERS = {name: key for key, name in table.OTHER_NAMES.items()}  # their layouts are not loaded for this

# By api key. Other records, above all NoOp, change nothing in an image, so they need not be decoded.
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
            table.TOPIC.key: _topic,
            table.REMOVE_TOPIC.key: _remove_topic,
            table.PARTITION.key: lambda state, data: state.requested_partitions.partition(data),
            table.PARTITION_CHANGE.key: lambda state, data: state.requested_partitions.change(data),
            table.CLEAR_ELR.key: lambda state, data: state.requested_partitions.clear_elr(data),
            table.CONFIG.key: _config,
        },
        Section.CONFIGS: {
            table.TOPIC.key: _topic,
            table.REMOVE_TOPIC.key: _remove_topic,
            table.CONFIG.key: _config,
            _OTHERS["USER_SCRAM_CREDENTIAL_RECORD"]: _scram,
            _OTHERS["REMOVE_USER_SCRAM_CREDENTIAL_RECORD"]: _remove_scram,
        },
        Section.CLIENTS: {
            _OTHERS["ACCESS_CONTROL_RECORD"]: lambda state, data: state.requested_clients.grant_without_id(data),
            _OTHERS["ACCESS_CONTROL_ENTRY_RECORD"]: lambda state, data: state.requested_clients.grant(data),
            _OTHERS["REMOVE_ACCESS_CONTROL_ENTRY_RECORD"]: lambda state, data: state.requested_clients.revoke(data),
            _OTHERS["USER_SCRAM_CREDENTIAL_RECORD"]: _scram,
            _OTHERS["REMOVE_USER_SCRAM_CREDENTIAL_RECORD"]: _remove_scram,
            _OTHERS["DELEGATION_TOKEN_RECORD"]: lambda state, data: state.requested_clients.token(data),
            _OTHERS["REMOVE_DELEGATION_TOKEN_RECORD"]: lambda state, data: state.requested_clients.remove_token(data),
            _OTHERS["CLIENT_QUOTA_RECORD"]: lambda state, data: state.requested_clients.quota(data),
            _OTHERS["PRODUCER_IDS_RECORD"]: lambda state, data: state.requested_clients.producer_ids(data),
        },
    }
)
# By the type number of the control record. They are few, and all are read: a snapshot begins and ends with one.
CONTROL_RULES: Rules = MappingProxyType(
    {
        table.LEADER_CHANGE.key: _leader_change,
        table.SNAPSHOT_HEADER.key: _snapshot_header,
        table.SNAPSHOT_FOOTER.key: _snapshot_footer,
        table.KRAFT_VERSION.key: _kraft_version,
        table.KRAFT_VOTERS.key: _kraft_voters,
    }
)
