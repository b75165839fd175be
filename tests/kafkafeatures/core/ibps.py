"""Observations of three brokers in ZooKeeper mode with their inter.broker.protocol.version, alone or in pods."""

from __future__ import annotations

from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.observation import Known, Node, Observation, SourceKind
from kafkafeatures.core.facts.settings import IBP, Setting, SettingSource
from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core.migrations import BROKERS, BY_HAND, a_node, cluster
from tests.kafkafeatures.worlds import NOW, known

DEFAULT, FILE = SettingSource.DEFAULT, SettingSource.FILE
IN_PODS = Rollout("StatefulSet", brokers=("broker",))


def setting(uses: str | None, knows: str) -> Setting:
    """Build the settings that a broker reports; `uses` is None if its file does not set the IBP."""
    if uses is None:
        return Setting(DEFAULT, knows, is_read_only=True, layers={DEFAULT: knows})
    return Setting(FILE, uses, is_read_only=True, layers={FILE: uses, DEFAULT: knows})


def broker(id_: int, uses: str | None = "3.8", knows: str = "3.9-IV0", **fields: Any) -> Node:
    """Build a broker that uses one IBP, on a Kafka whose newest IBP is `knows`."""
    zookeeper_broker = a_node(id_, Shape.PLAIN_BROKER)
    return replace(zookeeper_broker, settings={IBP: setting(uses, knows)}, **fields)


def brokers(*nodes: Node, uses: str | None = "3.8", knows: str = "3.9-IV0", **parts: Any) -> Observation:
    """Build three equal brokers, except those of `nodes`; broker 1 is the controller."""
    given_ids = {node.id for node in nodes}
    alike = [broker(id_, uses, knows) for id_ in BROKERS if id_ not in given_ids]
    return cluster(Position.ZOOKEEPER, *alike, *nodes, **parts)


def wanting(ibp: str = "3.9", *, rollout: Rollout = BY_HAND, **fields: Any) -> DesiredState:
    return DesiredState({}, ibp=ibp, rollout=rollout, **fields)


def pods(*outdated: int, release: str = "3.9") -> Known[WorkloadsReading]:
    """The pods of the three brokers; those of `outdated` are not of the update revision."""
    made = tuple(
        Pod(
            f"broker-{id_}", f"uid-{id_}", "broker", "old" if id_ in outdated else "new",
            host_names=(f"10.0.0.{id_}",), ips=(f"10.0.0.{id_}",),
            ready=True, phase="Running",
        )
        for id_ in BROKERS
    )  # fmt: skip
    owner = StatefulSet("broker", "uid", "brokers", 3, "new", "OnDelete", image="kafka", release=release, pods=made)
    return known(WorkloadsReading(NOW, (owner,)), SourceKind.KUBERNETES)


def in_pods(observation: Observation, *, outdated: tuple[int, ...] = (), release: str = "3.9") -> Observation:
    """Put all brokers into pods; those of the brokers `outdated` are not of the update revision."""
    nodes = tuple(
        replace(node, proved_at=f"10.0.0.{node.id}", host=f"10.0.0.{node.id}") if node.proved_at else node
        for node in observation.nodes
    )
    return replace(observation, nodes=nodes, workloads=pods(*outdated, release=release))
