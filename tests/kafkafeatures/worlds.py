"""Small worlds, tersely: observations, probes and images for tests of what is decided and shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import (
    Known,
    MetadataMode,
    Node,
    NodeState,
    Observation,
    Source,
    SourceKind,
    Unknown,
)
from kafkafeatures.core.facts.readings import (
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    Host,
    NodeAnswer,
    ProbedNode,
    QuorumAnswer,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kraftlog import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    FinalizedFeatures,
    Image,
    Migration,
    Quorum,
    Registrations,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SILENT = Failure(FailureKind.UNREACHABLE, "h:1", "connection refused", "start it")
NEW = {"metadata.version": (7, 27), "group.version": (0, 1), "kraft.version": (0, 1)}
OLD = {"metadata.version": (1, 21), "kraft.version": (0, 1)}

Ranges = Mapping[str, tuple[int, int]]


def known(value: Any, source: SourceKind = SourceKind.METADATA_LOG) -> Known[Any]:
    return Known(value, source, "somewhere", NOW)


def ranges(of: Ranges) -> dict[str, VersionRange]:
    return {name: VersionRange(*pair) for name, pair in of.items()}


def answer(
    of: Ranges = NEW,
    levels: Mapping[str, int] | None = None,
    *,
    complete: bool = True,
    keys: tuple[int, ...] = (18, 55),
    epoch: int = 9,
) -> NodeAnswer:
    finalized = {"metadata.version": 21} if levels is None else dict(levels)
    return NodeAnswer(ranges(of), finalized, epoch, {key: VersionRange(0, 4) for key in keys}, complete=complete)


def telling(one: Node, **settings: str) -> Node:
    """A node that gives its settings: each is Kafka's default, its dots written as two underscores."""
    found = {name.replace("__", "."): Setting(SettingSource.DEFAULT, value) for name, value in settings.items()}
    return replace(one, proved_at="198.18.0.1", settings=found)


def node(
    id_: int,
    *,
    role: Role | None = None,
    state: NodeState = NodeState.LIVE,
    said: NodeAnswer | Failure | None = None,
    written: Ranges | None = NEW,
    voter: bool | None = None,
) -> Node:
    """Ids from 3000 on are controllers. `written` None: no registration is known."""
    role = role or (Role.CONTROLLER if id_ >= 3000 else Role.BROKER)
    said = answer() if said is None else said
    return Node(
        id=id_,
        roles=(role,),
        state=state,
        host="h",
        port=id_,
        answer=Unknown(said) if isinstance(said, Failure) else known(said, SourceKind.API_REQUESTS),
        registered={} if written is None else {role: known(ranges(written))},
        is_voter=id_ >= 3000 if voter is None else voter,
        controller_listeners=(("controller.example", id_),) if role is Role.CONTROLLER else (),
    )


def quorum(
    *, epoch: int = 4, high_watermark: int = 100, voters: tuple[int, ...] = (3001, 3002), fetched: int = 1000
) -> QuorumAnswer:
    progress = tuple(ReplicaProgress(v, high_watermark, fetched, fetched) for v in voters)
    return QuorumAnswer(voters[0], epoch, high_watermark, progress, ())


def observation(
    *nodes: Node,
    levels: Mapping[str, int] | Failure | None = None,
    mode: MetadataMode | Failure = MetadataMode.KRAFT,
    cluster_id: str | Failure = "cluster-1",
    voting: QuorumAnswer | Failure | None = None,
    gaps: tuple[Failure, ...] = (),
) -> Observation:
    """Two controllers and two brokers on a new Kafka at metadata.version 21, unless said otherwise."""
    everyone = nodes or (node(3001), node(3002), node(1), node(2))
    levels = {"metadata.version": 21} if levels is None else levels
    voting = quorum() if voting is None else voting

    def fact(value: Any) -> Any:
        return Unknown(value) if isinstance(value, Failure) else known(value)

    return Observation(
        at=NOW,
        cluster_id=fact(cluster_id),
        mode=fact(mode),
        source=Source(SourceKind.METADATA_LOG, 100, 4, NOW, features_offset=10),
        nodes=everyone,
        finalized=fact(levels),
        active_controller=fact(voting if isinstance(voting, Failure) else voting.leader_id),
        quorum=fact(voting),
        registered_controllers=known(frozenset(n.id for n in everyone if Role.CONTROLLER in n.roles)),
        registered_brokers=known(frozenset(n.id for n in everyone if Role.BROKER in n.roles)),
        zk_migration_state=known(0),
        gaps=gaps,
    )


def asked(id_: int | None, said: NodeAnswer | Failure | None = None, role: Role | None = None) -> ProbedNode:
    """A node that was asked, with its answer `said`, by default that of a healthy node on a new Kafka. Without `role`
    it is a controller from id 3000 on.
    """
    role = role or (Role.CONTROLLER if id_ is not None and id_ >= 3000 else Role.BROKER)
    return ProbedNode(id_, role, "h", id_ or 1, answer() if said is None else said, NOW)


def probe(*nodes: ProbedNode, **parts: Any) -> ClusterProbe:
    """Lists made of the nodes that were asked; `parts` replace them."""
    brokers = tuple(Host(n.id, n.host, n.port) for n in nodes if n.role is Role.BROKER and n.id is not None)
    controllers = tuple(Host(n.id, n.host, n.port) for n in nodes if n.role is Role.CONTROLLER and n.id is not None)
    made: dict[str, Any] = {
        "at": NOW,
        "cluster_id": "cluster-1",
        "brokers": BrokerList(brokers, lists_fenced=True),
        "controllers": ControllerList(controllers, controllers[0].id if controllers else None),
        "quorum": quorum(voters=tuple(c.id for c in controllers) or (3001,)),
        "nodes": nodes,
    }
    return ClusterProbe(**{**made, **parts})


def image(
    brokers: Mapping[int, tuple[Ranges, bool]] | None = None,
    controllers: Mapping[int, Ranges] | None = None,
    levels: Mapping[str, int] | None = None,
    **fields: Any,
) -> Image:
    """`brokers`: id -> (ranges, fenced)."""
    no_process = UUID(int=0)
    at = (Endpoint("PLAINTEXT", "h", 9092, 0),)
    said: dict[str, Any] = {
        "offset": 100,
        "epoch": 4,
        "in_transaction": False,
        "unreadable": 0,
        "features_offset": 10,
        "feature_record_kraft_version": None,
        "kraft_version": 0,
        "voters": None,
        "zk_migration_state": 0,
        "unregistered": {},
        **fields,
    }
    return Image(
        said["offset"], said["epoch"], 0, said["in_transaction"], {}, said["unreadable"],
        Registrations(
            {
                i: BrokerRegistration(i, 1, no_process, at, of, None, fenced, False, False)
                for i, (of, fenced) in (brokers or {}).items()
            },
            {i: ControllerRegistration(i, no_process, False, at, of) for i, of in (controllers or {}).items()},
            said["unregistered"],
        ),
        FinalizedFeatures(
            {"metadata.version": 21} if levels is None else dict(levels),
            said["kraft_version"], said["feature_record_kraft_version"], said["features_offset"],
        ),
        Quorum(said["voters"], 3001),
        Migration(said["zk_migration_state"]),
    )  # fmt: skip
