"""A simulated cluster and a resource on the simulated API server, for reconciliations in a row: both record what the
process does, requests can fail, and the process can die at any call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.status import Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRun, NotSent, Outcome, OutcomeUnknown
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, ProbedNode, Readings
from kafkafeatures.core.facts.znodes import Read
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import PreparedUpdate
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.act import Reconciliation, reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.kubernetes_store import KubernetesStore
from kafkafeatures.reconcile.ports import Resource
from kafkasim.connection import Access
from kafkasim.plan import Plan
from kafkasim.ports import SimulatedCluster
from kafkasim.releases import KRAFT_VERSION
from kafkasim.rules import FeatureUpdate, UpgradeType
from kraftlog.schema import table
from tests.kafkafeatures.worlds import SILENT
from tests.kafkasim.clusters import plan, world
from tests.simulated.kubernetes import ApiServer

KEY = ResourceKey("ns", "name")
UNREACHABLE = Access(reaches_brokers=False, reaches_controllers=False)


class Crash(BaseException):
    """The process is gone."""


class Cluster(SimulatedCluster):
    """Three controllers and three brokers of Kafka 4.2, unless a plan has others, as the process reads and changes
    them.

    outcomes: outcomes of the next changes, which do not reach the cluster; None: the cluster decides.
    sent: all changes that were sent.
    reads: for each reading, True if it was one with partitions.
    claims: for each reading, the content of `/controller` that was known before.
    crash_in: number of calls, and of returns from a change, until the process dies; None: it lives.
    shows: replaces a reading by another one, which no simulated cluster would give.
    through_broker: changes go to a broker, as the active controller cannot be reached.
    """

    def __init__(self, levels: Mapping[str, int], of: Plan | None = None) -> None:
        of = of or plan()
        super().__init__(world(replace(of, levels={**of.levels, **levels})))
        self.outcomes: list[Outcome | None] = []
        self.sent: list[UpdateFeature] = []
        self.reads: list[bool] = []
        self.claims: list[Read[ControllerClaim]] = []
        self.crash_in: int | None = None
        self.shows: Callable[[Readings], Readings] = lambda readings: readings
        self.through_broker = False
        self._began = self._moves

    def tick(self) -> None:
        if self.crash_in is not None:
            if self.crash_in == 0:
                raise Crash
            self.crash_in -= 1

    @property
    def away(self) -> bool:
        """True if no node can be reached."""
        return self._access is UNREACHABLE

    @away.setter
    def away(self, away: bool) -> None:
        self.reach(UNREACHABLE if away else Access())

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        self.tick()
        async with super().prepared(change) as request:
            yield _Passed(request) if self.through_broker and not isinstance(request, NotSent) else request

    async def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        self.tick()
        self.reads.append(partitions)
        self.claims.append(claim)
        return self.shows(await super().read(partitions=partitions, settings=settings, claim=claim))

    async def look_again(self, *, claim: Read[ControllerClaim] = NOT_ASKED) -> Readings:
        self.tick()
        self.reads.append(True)
        self.claims.append(claim)
        return self.shows(await super().look_again(claim=claim))

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        self.tick()
        assert all(change.feature != KRAFT_VERSION for change in changes)
        return await super().validate(changes, directly=directly)

    async def update(self, change: UpdateFeature) -> Outcome:
        self.tick()
        self.sent.append(change)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        outcome = outcome or await super().update(change)
        self.tick()
        return outcome

    # --- its levels, and changes by another client ---

    @property
    def levels(self) -> Mapping[str, int]:
        """Finalized levels."""
        image = self.world.image
        return {**image.features, **({KRAFT_VERSION: image.kraft_version} if image.kraft_version else {})}

    @property
    def effective(self) -> int:
        """Number of records of levels since the beginning, also of a level that was written twice."""
        return self._moves - self._began

    def move(self, feature: str, level: int) -> bool:
        """Change a level as another client does, at the active controller. Returns True if it was accepted."""
        leader = self.world.active_node
        assert leader is not None
        before = self.levels.get(feature, 0)
        kind = UpgradeType.SAFE_DOWNGRADE if level < before else UpgradeType.UPGRADE
        update = FeatureUpdate(feature, level, kind)
        answer = self.world.update_features(leader, [update], validate_only=False)
        self._pass_time(10)
        return bool(answer.verdict.levels)

    @property
    def _moves(self) -> int:
        return self.world.image.counts.get(table.FEATURE_LEVEL.key, 0)


class _Passed:
    """A prepared change that counts as forwarded by a broker."""

    via = Via.BROKER

    def __init__(self, request: PreparedUpdate) -> None:
        self.send = request.send


def without_levels(readings: Readings) -> Readings:
    """Return readings of nodes that report no finalized level yet, without a readable log."""

    def shown(node: ProbedNode) -> ProbedNode:
        if isinstance(node.answer, Failure):
            return node
        return replace(node, answer=replace(node.answer, finalized={}, finalized_epoch=-1))

    return Readings(replace(readings.probe, nodes=tuple(map(shown, readings.probe.nodes))), SILENT)


class Store:
    """The resource `ns/name`, which production's own store reads and writes. The process may die at a write.

    met: the status has the cluster id, so that this is not the first contact.
    """

    def __init__(self, cluster: Cluster, levels: Mapping[str, int], *, met: bool = True) -> None:
        self._cluster, self._wanted = cluster, DesiredState(levels)
        self.server = ApiServer(cluster.now)
        self.server.create(*KEY, spec_of(self._wanted))
        if met:
            self.status = {"clusterId": cluster.world.cluster_id}
        operator = OperatorIdentity("", "operator", "test")
        self._store = KubernetesStore(self.server.client(), KEY, lambda: operator)

    async def read(self) -> Resource:
        await self._store.fetch()
        resource = await self._store.read()
        wanted = replace(resource.desired, may_approve_unseen=self._wanted.may_approve_unseen)
        return replace(resource, desired=wanted)

    async def read_again(self) -> Resource:
        self._cluster.tick()
        return await self.read()

    async def write_status(self, status: Status) -> None:
        self._cluster.tick()
        await self._store.write_status(status)
        self._cluster.tick()

    @property
    def wanted(self) -> DesiredState:
        return self._wanted

    @wanted.setter
    def wanted(self, wanted: DesiredState) -> None:
        self._wanted = wanted
        self.server.edit(*KEY, lambda manifest: manifest.update(spec=spec_of(wanted)))

    @property
    def status(self) -> dict[str, Any]:
        """Copy of the stored status, without the name of its operator."""
        manifest = self.server.get(*KEY)
        assert manifest is not None
        return {name: value for name, value in manifest.get("status", {}).items() if name != "operator"}

    @status.setter
    def status(self, status: Mapping[str, Any]) -> None:
        self.server.edit_status(*KEY, lambda manifest: manifest.update(status=dict(status)))

    @property
    def writes(self) -> int:
        return sum(times for manager, times in self.server.status_writes.items() if manager != "kubectl-edit")


def spec_of(wanted: DesiredState) -> dict[str, Any]:
    """Return the document that asks for this desired state."""
    assert not wanted.bundle
    cluster = {"bootstrapServers": "kafka:9092", **({"clusterId": wanted.cluster_id} if wanted.cluster_id else {})}
    approved = dict.fromkeys(("planHash",), *wanted.approvals) if wanted.approvals else {}
    rollout = wanted.rollout
    sets = {"brokers": list(rollout.brokers), "controllers": list(rollout.controllers)} if rollout.brokers else None
    return {
        "workload": {"driver": rollout.driver, **({"statefulSet": sets} if sets else {})},
        "rollout": {
            "maxParallel": str(rollout.max_parallel) if rollout.max_parallel.percent else rollout.max_parallel.number,
            "availability": rollout.availability.value,
            "stableFor": f"{rollout.stable_for.total_seconds():.0f}s",
            "nodeTimeout": f"{rollout.node_timeout.total_seconds():.0f}s",
        },
        "cluster": cluster,
        "mode": wanted.mode.value,
        "suspend": wanted.suspend,
        "consents": sorted(wanted.consents),
        "features": {
            "finalizeAfter": f"{wanted.finalize_after.total_seconds():.0f}s",
            "levels": [{"name": name, "level": level} for name, level in wanted.levels.items()],
        },
        "approval": {"policy": wanted.policy.value, **approved},
        "drift": {"onDrift": wanted.on_drift.value},
    }


async def reconcile_once(context: ReconcileContext) -> Reconciliation:
    """Read the resource, and reconcile it."""
    return await reconcile(context, await context.store.read())


async def no_time(seconds: float) -> None:
    """Return at once, as a sleep that does not wait."""


def context_of(cluster: Cluster, store: Store, **clocks: Any) -> ReconcileContext:
    """Build a context on the time of the cluster. clocks: other fields of its environment."""
    return ReconcileContext(
        store=store,
        kafka=cluster,
        environment=Environment(**{"clock": cluster.now, "sleep": cluster.sleep, **clocks}),
        ages=Ages(SYSTEM.monotonic),
    )


def lost_through_a_broker() -> tuple[Cluster, Store]:
    """Set up a first change that a broker passes on and does not answer."""
    cluster = Cluster({"metadata.version": 21})
    cluster.through_broker = True
    cluster.outcomes = [OutcomeUnknown("EOF")]
    return cluster, Store(cluster, {"metadata.version": 27})


def once(cluster: Cluster, store: Store) -> Reconciliation:
    return asyncio.run(reconcile_once(context_of(cluster, store)))


def run(cluster: Cluster, store: Store, *, most: int = 20) -> Reconciliation:
    """Reconcile until there is nothing more to do."""
    for _ in range(most):
        last = once(cluster, store)
        if last.requeue_after is None:
            return last
    raise AssertionError(f"not settled after {most} reconciliations: {last}")
