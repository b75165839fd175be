"""Settings that each node has to have for the position that comes next, and those that it has otherwise.

Pure. The edge says where the way leads (`edges.py`), the table what a node has to have there (`settings.py`); what a
node has now it says itself. A node that could not be asked is a Failure, and never taken to be as it should.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import IBP, NodeSettings, Setting, SettingSource
from kafkafeatures.core.migration.edges import Edge
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    BOOTSTRAP,
    CONNECT,
    DECIDED,
    LISTENER,
    OF_ZOOKEEPER,
    PROTOCOLS,
    QUORUM_LISTENERS,
    TABLE,
    VOTERS,
    Lines,
    SettingDifference,
    SettingFacts,
    Shape,
    differences,
    lines_of,
)

Said: TypeAlias = Mapping[tuple[Role, int], NodeSettings | Failure]
"""Settings as each node gives them, by its role and id."""

SHAPES: Mapping[Position, Mapping[Role, Shape]] = {
    Position.ZOOKEEPER: {Role.BROKER: Shape.PLAIN_BROKER},
    Position.PRE_MIGRATION: {Role.BROKER: Shape.PLAIN_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.COPIED: {Role.BROKER: Shape.FLAGGED_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.DUAL_WRITE: {Role.BROKER: Shape.KRAFT_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.FINALIZED: {Role.BROKER: Shape.KRAFT_BROKER, Role.CONTROLLER: Shape.CONTROLLER},
    Position.NO_CONTROLLER: {Role.BROKER: Shape.FLAGGED_BROKER},
    Position.RELEASED: {Role.BROKER: Shape.FLAGGED_BROKER},
}
"""Positions to which a way can lead, and what the nodes are there. A role that is not named has no nodes there."""

NAMES = frozenset({*TABLE, *DECIDED, VOTERS, BOOTSTRAP, LISTENER, AUTHORIZER, PROTOCOLS, ALLOW_EVERYONE}) - {"{quorum}"}
"""Settings that a node is asked for."""


class NodeDemand(Struct, frozen=True):
    """Settings that one node has otherwise than `shape` wants them; a Failure where it could not be asked."""

    role: Role
    id: int
    shape: Shape
    differs: tuple[SettingDifference, ...] | Failure


def value_of(node_settings: NodeSettings | Failure, name: str) -> str | None:
    """Value that the node itself was given; None where only the default says something, or the node did not answer."""
    setting = None if isinstance(node_settings, Failure) else node_settings.of.get(name)
    return None if setting is None or setting.source is SettingSource.DEFAULT else setting.value


def known_of(node_settings: Said, release: str) -> SettingFacts:
    """Facts that the values are made of. `release`: of the finalized metadata.version; where that is empty, the
    brokers' IBP counts if they all have the same.
    """
    brokers = [
        settings
        for (role, _), settings in node_settings.items()
        if role is Role.BROKER and isinstance(settings, NodeSettings)
    ]
    quorum = [
        settings for settings in node_settings.values() if value_of(settings, VOTERS) or value_of(settings, BOOTSTRAP)
    ]
    return SettingFacts(
        node_id=None,
        ibp=release or _only(_effective(broker.of.get(IBP)) for broker in brokers),
        dynamic=bool(quorum) and not any(value_of(settings, VOTERS) for settings in quorum),
        listener=_only(value_of(broker, LISTENER) or "" for broker in brokers),
        quorum_listener=_only(
            value_of(settings, QUORUM_LISTENERS) or ""
            for (role, _), settings in node_settings.items()
            if role is Role.CONTROLLER
        ),
        acls=any(value_of(settings, AUTHORIZER) == OF_ZOOKEEPER for settings in node_settings.values()),
        values={
            name: common_value
            for name in (CONNECT, VOTERS, BOOTSTRAP, QUORUM_LISTENERS)
            if (
                common_value := _only(
                    value for settings in node_settings.values() if (value := value_of(settings, name))
                )
            )
        },
        decided={
            name: common_value
            for name in DECIDED
            if (common_value := _only(_of_file(broker.of.get(name)) for broker in brokers))
        },
        authorizes=any(value_of(broker, AUTHORIZER) for broker in brokers),
        allows_everyone=any(ALLOW_EVERYONE in broker.of for broker in brokers),
    )


def _only(values: Iterable[str]) -> str:
    """The value that all have; empty where they differ, or there is none."""
    distinct_values = {*values}
    return distinct_values.pop() if len(distinct_values) == 1 else ""


def _of_file(setting: Setting | None) -> str:
    """Value in its file: what requests have set is copied with everything else."""
    if setting is None:
        return ""
    if setting.source is SettingSource.FILE:  # nothing stronger is set
        return setting.value or ""
    return setting.layers.get(SettingSource.FILE, "")


def _effective(setting: Setting | None) -> str:
    return "" if setting is None else setting.value or ""


class SettingDifferences(Struct, frozen=True):
    """Requirements of the position `end`, which comes next. edge: the way there, None where the cluster is at its goal.

    nodes: each node that was seen. missing: kinds of nodes that have to be there by now, and of which none is known.
    """

    position: Position
    end: Position
    edge: Edge | None
    facts: SettingFacts
    nodes: tuple[NodeDemand, ...]
    missing: tuple[Failure, ...]

    @property
    def lines(self) -> tuple[tuple[Role, Shape, Lines], ...]:
        """Lines that stand in the file of each kind of node."""
        return tuple((role, shape, lines_of(shape, self.facts)) for role, shape in SHAPES[self.end].items())

    @property
    def unknown(self) -> tuple[Failure, ...]:
        """Reasons why it is not known whether all nodes have what they need."""
        return (*(node.differs for node in self.nodes if isinstance(node.differs, Failure)), *self.missing)

    @property
    def differing(self) -> tuple[NodeDemand, ...]:
        """Nodes that certainly have something otherwise."""
        return tuple(node for node in self.nodes if node.differs and not isinstance(node.differs, Failure))


def demands(
    position: Position, end: Position, edge: Edge | None, setting_facts: SettingFacts, node_settings: Said
) -> SettingDifferences:
    """Each node that was seen, held against what it has to be at `end`."""
    nodes = tuple(
        NodeDemand(role, id_, shape, _held(shape, msgspec.structs.replace(setting_facts, node_id=id_), settings))
        for (role, id_), settings in node_settings.items()
        if (shape := SHAPES[end].get(role)) is not None
    )
    roles = {node.role for node in nodes}
    expected = SHAPES[position] if position in SHAPES else SHAPES[end]
    missing = tuple(_none_known(role) for role in SHAPES[end] if role in expected and role not in roles)
    return SettingDifferences(position, end, edge, setting_facts, nodes, missing)


def _held(
    shape: Shape, setting_facts: SettingFacts, node_settings: NodeSettings | Failure
) -> tuple[SettingDifference, ...] | Failure:
    return node_settings if isinstance(node_settings, Failure) else differences(shape, setting_facts, node_settings.of)


def _none_known(role: Role) -> Failure:
    flag = "--bootstrap-server" if role is Role.BROKER else "--bootstrap-controller"
    return Failure(FailureKind.NOT_ASKED, f"{role.value.lower()}s", "none is known", f"give {flag}")
