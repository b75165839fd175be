"""Settings that each node must have at the next position of a migration, and those that differ now.

Pure. Called by `core/migration/progress.py`, and by the command `migration settings`. `edges.py` says which position is
next, the table in `settings.py` which settings a node must have there, and the node itself reports which it has now
(DescribeConfigs). A node that could not be read is a Failure, and never counts as correct.
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

SettingsByNode: TypeAlias = Mapping[tuple[Role, int], NodeSettings | Failure]
"""Settings as each node reports them, by role and id of the node."""

SHAPES: Mapping[Position, Mapping[Role, Shape]] = {
    Position.ZOOKEEPER: {Role.BROKER: Shape.PLAIN_BROKER},
    Position.PRE_MIGRATION: {Role.BROKER: Shape.PLAIN_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.COPIED: {Role.BROKER: Shape.FLAGGED_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.DUAL_WRITE: {Role.BROKER: Shape.KRAFT_BROKER, Role.CONTROLLER: Shape.MIGRATING_CONTROLLER},
    Position.FINALIZED: {Role.BROKER: Shape.KRAFT_BROKER, Role.CONTROLLER: Shape.CONTROLLER},
    Position.NO_CONTROLLER: {Role.BROKER: Shape.FLAGGED_BROKER},
    Position.RELEASED: {Role.BROKER: Shape.FLAGGED_BROKER},
}
"""By position to which a way can lead: role and mode that nodes must have there. A role that is not named has no
nodes.
"""

NAMES = frozenset({*TABLE, *DECIDED, VOTERS, BOOTSTRAP, LISTENER, AUTHORIZER, PROTOCOLS, ALLOW_EVERYONE}) - {"{quorum}"}
"""Names of the settings that are read of each node. `{quorum}` of the table is no name: it stands for VOTERS or
BOOTSTRAP.
"""


class NodeDemand(Struct, frozen=True):
    """Requirements for one node.

    role, id: the node.
    shape: role and mode that it must have.
    differs: settings that are not as the shape requires; a Failure if the node could not be read.
    """

    role: Role
    id: int
    shape: Shape
    differs: tuple[SettingDifference, ...] | Failure


def value_of(node_settings: NodeSettings | Failure, name: str) -> str | None:
    """Value that is set for the node; None if it has only the default, or did not answer."""
    setting = None if isinstance(node_settings, Failure) else node_settings.of.get(name)
    return None if setting is None or setting.source is SettingSource.DEFAULT else setting.value


def setting_facts_of(node_settings: SettingsByNode, release: str) -> SettingFacts:
    """Facts from which required values are derived. `release`: name of the finalized metadata.version; if it is empty,
    the inter.broker.protocol.version (IBP) of the brokers is used, if all have the same.
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
    """The value that all have in common; empty if they differ, or if there is none."""
    distinct_values = {*values}
    return distinct_values.pop() if len(distinct_values) == 1 else ""


def _of_file(setting: Setting | None) -> str:
    """Value in the file of the node. Values set by requests are left out, as they are copied with all metadata."""
    if setting is None:
        return ""
    if setting.source is SettingSource.FILE:  # nothing stronger is set
        return setting.value or ""
    return setting.layers.get(SettingSource.FILE, "")


def _effective(setting: Setting | None) -> str:
    return "" if setting is None else setting.value or ""


class SettingDifferences(Struct, frozen=True):
    """Settings that differ from what the next position requires.

    position: position of the cluster.
    end: the position that comes next.
    edge: the way there; None: the cluster is at its goal.
    facts: facts from which the required values are derived.
    nodes: each node that was read, with its differences.
    missing: a Failure for each role of which there must be nodes by now, and none is known.
    """

    position: Position
    end: Position
    edge: Edge | None
    facts: SettingFacts
    nodes: tuple[NodeDemand, ...]
    missing: tuple[Failure, ...]

    @property
    def lines(self) -> tuple[tuple[Role, Shape, Lines], ...]:
        """Lines for the configuration file of each kind of node."""
        return tuple((role, shape, lines_of(shape, self.facts)) for role, shape in SHAPES[self.end].items())

    @property
    def unknown(self) -> tuple[Failure, ...]:
        """Reasons why the settings of some nodes are not known."""
        return (*(node.differs for node in self.nodes if isinstance(node.differs, Failure)), *self.missing)

    @property
    def differing(self) -> tuple[NodeDemand, ...]:
        """Nodes that certainly have a setting that differs."""
        return tuple(node for node in self.nodes if node.differs and not isinstance(node.differs, Failure))


def demands(
    position: Position, end: Position, edge: Edge | None, setting_facts: SettingFacts, node_settings: SettingsByNode
) -> SettingDifferences:
    """Differences of each node from the settings that it must have at `end`."""
    nodes = tuple(
        NodeDemand(
            role, id_, shape, _differences_of(shape, msgspec.structs.replace(setting_facts, node_id=id_), settings)
        )
        for (role, id_), settings in node_settings.items()
        if (shape := SHAPES[end].get(role)) is not None
    )
    roles = {node.role for node in nodes}
    # On the way to a position with controllers there need not be any yet.
    expected = SHAPES[position] if position in SHAPES else SHAPES[end]
    missing = tuple(_none_known(role) for role in SHAPES[end] if role in expected and role not in roles)
    return SettingDifferences(position, end, edge, setting_facts, nodes, missing)


def _differences_of(
    shape: Shape, setting_facts: SettingFacts, node_settings: NodeSettings | Failure
) -> tuple[SettingDifference, ...] | Failure:
    return node_settings if isinstance(node_settings, Failure) else differences(shape, setting_facts, node_settings.of)


def _none_known(role: Role) -> Failure:
    flag = "--bootstrap-server" if role is Role.BROKER else "--bootstrap-controller"
    return Failure(FailureKind.NOT_ASKED, f"{role.value.lower()}s", "none is known", f"give {flag}")
