"""Makes the records of a simulated cluster: registrations, levels, control records of the quorum, and snapshots.

Its callers decide when a record is written. Record versions follow `MetadataVersion.java`; a field that a version does
not have is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Role
from kafkasim.log import Position, Write, encode
from kafkasim.node import Key, Node
from kafkasim.releases import KRAFT_VERSION
from kafkasim.rules import java_hash_order
from kraftlog import BrokerRegistration, ControllerRegistration, Endpoint, Image
from kraftlog.schema import table

LISTENER = {Role.BROKER: "PLAINTEXT", Role.CONTROLLER: "CONTROLLER"}
_PLAINTEXT = 0

_REGISTER_BROKER = ((30, 4), (17, 3), (8, 2), (7, 1))
"""(metadata.version from which on it is written, version of RegisterBrokerRecord), the newest first."""
_SNAPSHOT_BATCH = 500  # records


def supported(node: Node, feature: str) -> VersionRange:
    """The range of a node; a feature it does not list counts as 0-0."""
    return node.release.features.get(feature, VersionRange(0, 0))


def level(feature: str, value: int) -> Write:
    """The record of a finalized level; 0 removes it."""
    return Write(table.FEATURE_LEVEL, {"name": feature, "featureLevel": value})


def migration(state: int) -> Write:
    """The state of a migration from ZooKeeper: 0 none, 2 waiting for brokers, 1 writing to both, 3 over."""
    return Write(table.ZK_MIGRATION_STATE, {"zkMigrationState": state})


def broker(node: Node, epoch: int, metadata_version: int) -> Write:
    """The registration of a broker, fenced until it is ready. `epoch`: offset that the record will have."""
    features = {name: (r.min, r.max) for name, r in node.release.features.items()}
    endpoint = Endpoint(LISTENER[Role.BROKER], node.host, node.port, _PLAINTEXT)
    version = next((v for since, v in _REGISTER_BROKER if metadata_version >= since), 0)
    data: dict[str, Any] = {
        "brokerId": node.id,
        "isMigratingZkBroker": node.migrating,
        "incarnationId": node.incarnation,
        "brokerEpoch": epoch,
        "endPoints": _endpoints([endpoint]),
        "features": _features(features),
        "rack": None,
        "fenced": True,
        "inControlledShutdown": False,
        "logDirs": (node.directory,),
    }
    return Write(table.REGISTER_BROKER, _fitting(data, version), version)


def _fitting(data: dict[str, Any], version: int) -> dict[str, Any]:
    """The fields that this version of RegisterBrokerRecord has."""
    names = {field.name for field in table.REGISTER_BROKER.layouts[0].fields.fields if field.since <= version}
    return {name: value for name, value in data.items() if name in names}


def controller(node: Node) -> Write:
    """The registration of a controller (KIP-919)."""
    endpoint = Endpoint(LISTENER[Role.CONTROLLER], node.host, node.port, _PLAINTEXT)
    features = {name: (r.min, r.max) for name, r in node.release.features.items()}
    return _registered_controller(
        ControllerRegistration(node.id, node.incarnation, node.migrating, (endpoint,), features)
    )


def leader_change(leader: int, voters: Sequence[Node], granting: Sequence[Node], *, dynamic: bool) -> Write:
    """The first record of an epoch: its leader, the voters, and the voters that voted for this leader."""

    def voter(node: Node) -> dict[str, Any]:
        return {"voterId": node.id} | ({"voterDirectoryId": node.directory} if dynamic else {})

    data = {
        "leaderId": leader,
        "voters": tuple(voter(each) for each in voters),
        "grantingVoters": tuple(voter(each) for each in granting),
    }
    return Write(table.LEADER_CHANGE, data, 1 if dynamic else 0)


def quorum_records(voters: Sequence[Node], kraft_version: int) -> list[Write]:
    """Records that a raise of kraft.version writes: the level and the voters with their directories."""
    voter_records = []
    for node in voters:
        kraft = supported(node, KRAFT_VERSION)
        voter_records.append(
            {
                "voterId": node.id,
                "voterDirectoryId": node.directory,
                "endpoints": ({"name": LISTENER[Role.CONTROLLER], "host": node.host, "port": node.port},),
                "kRaftVersionFeature": {"minSupportedVersion": kraft.min, "maxSupportedVersion": kraft.max},
            }
        )
    return [
        Write(table.KRAFT_VERSION, {"kRaftVersion": kraft_version}),
        Write(table.KRAFT_VOTERS, {"voters": tuple(voter_records)}),
    ]


def snapshot(
    image: Image,
    position: Position,
    voters: Sequence[Node],
    nodes: Mapping[Key, Node],
    topics: Sequence[Write],
    *,
    timestamp_ms: int,
) -> bytes:
    """A checkpoint file of this image: header and quorum, the records, the footer. Offsets count from 0. `topics`: the
    records of the partitions.
    """
    header = [Write(table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": image.timestamp_ms})]
    if image.kraft_version:
        header += quorum_records(voters, image.kraft_version)
    writes = [level(name, value) for name, value in image.features.items()]
    if image.zk_migration_state is not None:
        writes.append(migration(image.zk_migration_state))
    metadata_version = image.features["metadata.version"]
    writes += [
        _registered(nodes[Role.BROKER, broker_id], image.brokers[broker_id], metadata_version)
        for broker_id in sorted(image.brokers)
    ]
    writes += [_registered_controller(each) for _, each in sorted(image.controllers.items())]
    writes += topics
    batches = [header, *(writes[i : i + _SNAPSHOT_BATCH] for i in range(0, len(writes), _SNAPSHOT_BATCH))]
    batches.append([Write(table.SNAPSHOT_FOOTER, {})])
    offset, chunks = 0, []
    for batch in batches:
        chunks.append(encode(batch, base_offset=offset, epoch=position.epoch, timestamp_ms=timestamp_ms))
        offset += len(batch)
    return b"".join(chunks)


def _registered(node: Node, registration: BrokerRegistration, metadata_version: int) -> Write:
    """The record of a registration in the image, even if the node has changed since."""
    write = broker(node, registration.epoch, metadata_version)
    data = dict(write.data)
    data |= {
        "incarnationId": registration.incarnation,
        "endPoints": _endpoints(registration.endpoints),
        "features": _features(registration.features),
        "fenced": registration.fenced,
        "inControlledShutdown": registration.in_controlled_shutdown,
        "logDirs": registration.log_dirs,
    }
    return Write(write.type, _fitting(data, write.version), write.version)


def _registered_controller(registration: ControllerRegistration) -> Write:
    data = {
        "controllerId": registration.id,
        "incarnationId": registration.incarnation,
        "zkMigrationReady": registration.zk_migration_ready,
        "endPoints": _endpoints(registration.endpoints),
        "features": _features(registration.features),
    }
    return Write(table.REGISTER_CONTROLLER, data)


def _endpoints(endpoints: Sequence[Endpoint]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"name": e.name, "host": e.host, "port": e.port, "securityProtocol": e.security_protocol} for e in endpoints
    )


def _features(features: Mapping[str, tuple[int, int]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"name": name, "minSupportedVersion": features[name][0], "maxSupportedVersion": features[name][1]}
        for name in java_hash_order(features)
    )
