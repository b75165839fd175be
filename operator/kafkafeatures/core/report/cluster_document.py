"""The document of `describe -o json`: a cluster as it was read.

Pure. Called by `describe`; its parts also by the documents of a plan and of a status. It imports nothing that decides,
because `describe` has to start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.core.facts.binaries import inferred_release
from kafkafeatures.core.facts.observation import Known, Node, Observation, SourceKind, Unknown, supported_by_all
from kafkafeatures.core.facts.quorum import quorum_mode
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import level_in_kraft, level_name
from kafkafeatures.core.facts.settings import IBP

if TYPE_CHECKING:
    from kafkafeatures.api.records import Json


def cluster_document(observation: Observation, *, api_names: Mapping[int, str] | None = None) -> Json:
    """The document of `describe -o json`. `api_names`: names of Kafka's APIs by key; if given, nodes show the versions
    of every API that they support.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "Cluster",
        "clusterId": or_none(observation.cluster_id),
        "metadataMode": or_none(observation.mode),
        "quorumMode": mode.value if (mode := quorum_mode(observation)) is not None else None,
        "activeController": or_none(observation.active_controller),
        "source": source_shape(observation),
        "features": [feature_shape(observation, name) for name in observation.feature_names()],
        "nodes": node_shapes(observation, api_names=api_names),
        "notRead": not_read(observation),
    }


def not_read(observation: Observation) -> list[Json]:
    """Gaps: what could not be read, why, and what to do."""
    return [{"what": gap.location, "why": gap.message, "remedy": gap.remedy} for gap in observation.gaps]


def source_shape(observation: Observation) -> Json:
    """Source of the observation; with an offset only for a metadata log."""
    source = observation.source
    if source.kind is SourceKind.METADATA_LOG:
        files = {"files": source.files, "timestamp": f"{source.at:%Y-%m-%dT%H:%M:%SZ}"} if source.files else {}
        return {"kind": source.kind.value, "offset": source.offset, "epoch": source.epoch, **files}
    return {"kind": source.kind.value}


def feature_shape(observation: Observation, name: str) -> Json:
    """One feature: its finalized level, and the range that all nodes support. `unknownNodes` has the ids of nodes whose
    range could not be read; that range leaves these nodes out.
    """
    shape: Json = {"name": name}
    if isinstance(observation.finalized, Known):
        levels = observation.finalized.value
        shape |= {"finalized": levels.get(name, 0)} if observation.in_zookeeper_mode else level_in_kraft(name, levels)
    supported = supported_by_all(observation, [name])[name]
    if supported is not None:
        shape["supportedMin"], shape["supportedMax"] = supported.min, supported.max
    unknown = [node.id for node in observation.nodes if node.known_range_of(name) is None]
    if unknown:
        shape["unknownNodes"] = unknown
    return shape


def with_level_names(feature: Json) -> Json:
    """A feature of a status in the form of plan documents: with the names of its levels, where they have any."""
    names = {
        f"{key}Name": level_name(feature["name"], feature[key]) for key in ("finalized", "desired") if key in feature
    }
    return {**feature, **{key: name for key, name in names.items() if name}}


def node_shapes(observation: Observation, *, api_names: Mapping[int, str] | None = None) -> list[Json]:
    """All nodes. Brokers in ZooKeeper mode have their inter.broker.protocol.version, where it was read."""
    shapes = [node_shape(node, api_names=api_names) for node in observation.nodes]
    for node, shape in zip(observation.nodes, shapes, strict=True):
        if Role.CONTROLLER in node.roles and isinstance(observation.quorum, Known):
            shape["voter"] = node.is_voter
        setting = node.settings.get(IBP) if observation.in_zookeeper_mode else None
        if setting is not None and setting.value:
            shape["interBrokerProtocolVersion"] = setting.value
    return shapes


def node_shape(node: Node, *, api_names: Mapping[int, str] | None = None) -> Json:
    """One node: roles and state, the known ranges, and the Kafka release that has these ranges. `inferredFromPod`: the
    release that the pod of a controller names which does not answer, and the ranges of that release.
    """
    shape: Json = {"id": node.id, "roles": [role.value for role in node.roles], "state": node.state.value}
    if node.port >= 0:
        shape["host"], shape["port"] = node.host, node.port
    if release := inferred_release(node):
        shape["inferredRelease"] = release
    shape["features"] = node_ranges(node)
    if isinstance(node.answer, Known):
        shape["finalized"] = dict(sorted(node.answer.value.finalized.items()))
        if api_names is not None:
            shape["apis"] = {
                api_names.get(key, str(key)): {"min": versions.min, "max": versions.max}
                for key, versions in sorted(node.answer.value.apis.items())
            }
    else:
        shape["why"] = str(node.answer.failure)
    if node.inferred is not None:
        ranges = {name: {"min": levels.min, "max": levels.max} for name, levels in sorted(node.inferred.ranges.items())}
        shape["inferredFromPod"] = {"pod": node.inferred.pod, "release": node.inferred.release, "features": ranges}
    return shape


def node_ranges(node: Node) -> Json:
    """Supported range {min, max} by feature, without features that the node lacks or whose range is unknown."""
    names = set(node.answer.value.supported) if isinstance(node.answer, Known) else set()
    for ranges in node.registered.values():
        names.update(ranges.value)
    known_ranges = {name: node.known_range_of(name) for name in sorted(names)}
    return {
        name: {"min": known_range.min, "max": known_range.max}
        for name, known_range in known_ranges.items()
        if known_range is not None
    }


def or_none(fact: Known[Any] | Unknown) -> Any:
    """Value of a fact in a document; None where it is not known."""
    return fact.value if isinstance(fact, Known) else None
