"""The ports: a simulated cluster behind the `KafkaPort` of a pass, in-process and in virtual time.

Called by tests that run thousands of passes a second: crash exploration, properties over whole lives. It shows of the
world what the adapter would have read from the server of the same world, and a test holds the two against each
other. A call takes a little virtual time, and `sleep` takes as much as it is told, so nobody ever waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.observation import (
    Known,
    MetadataMode,
    Node,
    NodeState,
    Observation,
    Source,
    SourceKind,
    Unknown,
)
from kafkafeatures.core.readings import Failure, FailureKind, NodeAnswer, QuorumAnswer, ReplicaProgress, Role
from kafkafeatures.core.steps import (
    Accepted,
    Applied,
    Outcome,
    OutcomeUnknown,
    Refused,
    Rejected,
    Unavailable,
    UpdateFeature,
    Verdict,
)
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.rules import Verdict as Judged
from kafkasim.world import NoActiveControllerError, World
from kafkasim.world import Node as Process

T = TypeVar("T")

CALL_MS = 10
"""What a look or a request takes; longer than a round of the followers, so that an answer means committed."""

_NO_LEADER = Failure(FailureKind.NO_LEADER, "DescribeQuorum", "no controller is active", "look at the controllers")


class SimulatedCluster:
    """`KafkaPort` for one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def now(self) -> datetime:
        """The time of the world."""
        return datetime.fromtimestamp(self.world.now_ms / 1000, UTC)

    async def sleep(self, seconds: float) -> None:
        """Let that much happen in the world."""
        self.world.advance(self.world.now_ms + max(1, int(timedelta(seconds=seconds) / timedelta(milliseconds=1))))

    @property
    def sends_to_active_controller(self) -> bool:
        """As the port says: a simulated controller can always be reached."""
        return self.world.active is not None

    async def look(self) -> Observation:
        """As the port says."""
        self._pass_time()
        world, image = self.world, self.world.image
        active, leader = world.active, world.active_node
        return Observation(
            at=self.now(),
            cluster_id=self._read(world.cluster_id),
            mode=self._read(MetadataMode.KRAFT),
            source=Source(SourceKind.METADATA_LOG, image.offset, image.epoch, self.now(), image.features_offset),
            nodes=tuple(self._node(process) for process in self._everybody()),
            finalized=self._read(MappingProxyType(world.finalized(leader)[0])) if leader else Unknown(_NO_LEADER),
            active_controller=self._read(active) if active is not None else Unknown(_NO_LEADER),
            quorum=self._read(self._quorum(active)) if active is not None else Unknown(_NO_LEADER),
            registered_controllers=self._read(frozenset(image.controllers)),
            registered_brokers=self._read(frozenset(image.brokers)),
            zk_migration_state=self._read(image.zk_migration_state or 0),
        )

    async def validate(self, changes: Sequence[UpdateFeature]) -> Verdict:
        """As the port says."""
        judged = self._ask(changes, validate_only=True)
        if judged is None:
            return Unavailable("no controller is active")
        refused = _refusals(judged)
        return Refused(refused[0][0], "; ".join(text for _, text in refused)) if refused else Accepted()

    async def update(self, change: UpdateFeature) -> Outcome:
        """As the port says."""
        judged = self._ask([change], validate_only=False)
        if judged is None:
            return OutcomeUnknown("no controller is active")
        refused = _refusals(judged)
        return Rejected(*refused[0]) if refused else Applied()

    def _ask(self, changes: Sequence[UpdateFeature], *, validate_only: bool) -> Judged | None:
        active = self.world.active_node
        if active is None:
            return None
        updates = [
            FeatureUpdate(c.feature, c.after, UpgradeType.SAFE_DOWNGRADE if c.after < c.before else UpgradeType.UPGRADE)
            for c in changes
        ]
        try:
            judged = self.world.update_features(active, updates, validate_only=validate_only).verdict
        except NoActiveControllerError:
            return None
        self._pass_time()
        return judged

    def _pass_time(self) -> None:
        self.world.advance(self.world.now_ms + CALL_MS)

    def _read(self, value: T) -> Known[T]:
        return Known(value, SourceKind.METADATA_LOG, f"metadata log at offset {self.world.image.offset}", self.now())

    def _everybody(self) -> list[Process]:
        """Who is registered or shows life, controllers first."""
        image = self.world.image
        controllers = [
            one
            for one in self.world.of_role(Role.CONTROLLER)
            if one.running or one.id in image.controllers or one.id in self.world.voters
        ]
        return controllers + [one for one in self.world.of_role(Role.BROKER) if one.running or one.id in image.brokers]

    def _node(self, process: Process) -> Node:
        image = self.world.image
        registration = (image.brokers if process.role is Role.BROKER else image.controllers).get(process.id)
        registered: dict[Role, Known[Mapping[str, VersionRange]]] = {}
        if registration is not None:
            ranges = {name: VersionRange(*pair) for name, pair in registration.features.items()}
            registered[process.role] = self._read(MappingProxyType(ranges))
        return Node(
            id=process.id,
            roles=(process.role,),
            state=self._state(process),
            host=process.host,
            port=process.port,
            answer=self._answer(process),
            registered=registered,
            is_voter=process.role is Role.CONTROLLER and process.id in self.world.voters,
        )

    def _answer(self, process: Process) -> Known[NodeAnswer] | Unknown:
        where = f"{process.host}:{process.port}"
        if not process.running:
            return Unknown(Failure(FailureKind.UNREACHABLE, where, "connection refused", "check that the node runs"))
        levels, epoch = self.world.finalized(process)
        apis = process.release.broker_apis if process.role is Role.BROKER else process.release.controller_apis
        answer = NodeAnswer(dict(process.release.features), levels, epoch, dict(apis), complete=True)
        return Known(answer, SourceKind.API_REQUESTS, where, self.now())

    def _state(self, process: Process) -> NodeState:
        if process.role is Role.CONTROLLER:
            if process.running:
                return NodeState.LIVE
            return NodeState.UNREACHABLE if process.id in self.world.voters else NodeState.GHOST
        registration = self.world.image.brokers.get(process.id)
        if registration is None:
            return NodeState.REFUSED
        if process.running:
            return NodeState.FENCED if registration.fenced else NodeState.LIVE
        return NodeState.GHOST if registration.fenced else NodeState.UNREACHABLE

    def _quorum(self, leader: int) -> QuorumAnswer:
        watermark, now = self.world.log.high_watermark, self.world.now_ms
        voters = tuple(
            ReplicaProgress(one, watermark, now, now) if self._runs(one) else ReplicaProgress(one, 0)
            for one in self.world.voters
        )
        return QuorumAnswer(leader, self.world.epoch, watermark, voters, ())

    def _runs(self, controller: int) -> bool:
        return self.world.nodes[Role.CONTROLLER, controller].running


def _refusals(judged: Judged) -> list[tuple[int, str]]:
    answers = [(judged.error_code, judged.error_message), *((r.error_code, r.error_message) for r in judged.results)]
    return [(code, text or "") for code, text in answers if code]
