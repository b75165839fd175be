"""The readings of one observation and their order: all that the stages require, and nothing else."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core import kinds
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, PartitionsReading, Readings
from kafkafeatures.core.facts.znodes import StoreComparison, ZooKeeperReading
from kafkafeatures.core.levels.stage import Levels
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes, DeletionInFlight
from kafkafeatures.core.migration.release import release
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation
from kraftlog.partitions import MinInsyncReplicas, Partitions
from tests.kafkafeatures.ensembles import ENSEMBLE, Ensemble, claimed, elected, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, context_of
from tests.kafkafeatures.worlds import NOW

WANTED = {"metadata.version": 25}
INTERVAL = "metadata.log.max.snapshot.interval.ms"
NOTHING_MORE = ReadRequirements()
reading = partial(znodes, cluster_id=Cluster(WANTED).world.cluster_id)
COMPARED = StoreComparison(NOW, 99)
SURVEY = Survey(controller_epoch=7)
IN_BOTH_READINGS = pytest.mark.parametrize("again", [False, True], ids=["first reading", "second reading"])


class RequiringStage(Levels):
    """A stage of levels with further requirements. `first`: those before any reading; `then`: those that follow from
    the reading of the nodes.
    """

    def __init__(self, first: ReadRequirements, then: ReadRequirements = NOTHING_MORE) -> None:
        self._first, self._then = first, then

    def demands(self, context: ReadContext) -> ReadRequirements:
        return self._first if context.observation is None else self._first | self._then


class ReadingScene:
    """A resource in sync, its cluster and its ensemble. `order`: names of the readings, in their order."""

    def __init__(self, znodes: ZooKeeperReading | Failure | None = None) -> None:
        self.cluster = Cluster(WANTED)
        self.store = Store(self.cluster, WANTED)
        self.ensemble = Ensemble(znodes or reading(), compares=COMPARED, surveys=SURVEY)
        self.cluster.shows = self._shows
        self.context: ReconcileContext = replace(context_of(self.cluster, self.store), zookeeper=self.ensemble)

    def observe(self, *, again: bool = False) -> Observation:
        """Observe once. `again`: as the second reading of one reconciliation."""
        self.order.clear()

        async def look() -> Observation:
            evaluation = await evaluate(self.context, await self.store.read(), only_for_restart=again)
            assert isinstance(evaluation, Evaluation)
            return evaluation.observation

        return asyncio.run(look())

    def _shows(self, readings: Readings) -> Readings:
        self.order.append("cluster")
        return readings

    @property
    def order(self) -> list[str]:
        return self.ensemble.happened


def demand(patch: pytest.MonkeyPatch, first: ReadRequirements, then: ReadRequirements = NOTHING_MORE) -> None:
    patch.setattr(kinds, "STAGES", (RequiringStage(first, then),))


def test_required_znodes_are_read_before_the_cluster_in_each_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    scene = ReadingScene()
    for again in (False, True):
        zookeeper = scene.observe(again=again).zookeeper
        assert isinstance(zookeeper, Known)
        assert (zookeeper.value, zookeeper.origin) == (reading(), ENSEMBLE)
        assert scene.order == ["znodes", "cluster"]


def test_no_znode_is_read_if_no_stage_requires_it(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(partitions=True))
    scene = ReadingScene()
    for again in (False, True):
        assert scene.observe(again=again).zookeeper == Unknown(NOT_ASKED)
        assert scene.order == ["cluster"]


def test_required_znodes_are_unknown_without_an_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    scene = ReadingScene()
    scene.context = replace(scene.context, zookeeper=None)
    assert scene.observe().zookeeper == Unknown(NOT_ASKED)


def test_the_failure_of_an_unreadable_ensemble_is_reported_and_the_cluster_is_still_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    away = Failure(FailureKind.UNREACHABLE, f"ZooKeeper {ENSEMBLE}", "connection refused")
    observation = ReadingScene(away).observe()
    assert observation.zookeeper == Unknown(away)
    assert isinstance(observation.finalized, Known)


def test_requirements_that_follow_from_the_nodes_are_read_together_with_a_new_reading_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(znodes=True))
    scene = ReadingScene()
    assert isinstance(scene.observe().zookeeper, Known)
    assert scene.order == ["cluster", "znodes", "cluster"]
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(znodes=True))
    scene.observe()
    assert scene.order == ["znodes", "cluster"]  # nothing was missing


def test_no_further_reading_is_made_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(znodes=True, partitions=True))
    scene = ReadingScene()
    scene.store.status = {"clusterId": "another"}
    scene.observe()
    assert scene.order == ["cluster"]  # no znodes
    assert scene.cluster.reads == [False]  # one reading, without partitions


def test_the_settings_that_stages_require_are_read_from_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(settings=frozenset({INTERVAL})))
    scene = ReadingScene()
    nodes = scene.observe().nodes
    assert nodes
    assert all(INTERVAL in node.settings for node in nodes)
    demand(monkeypatch, ReadRequirements())
    assert not any(node.settings for node in scene.observe().nodes)


def test_zookeeper_is_compared_with_the_log_last_and_only_if_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(comparison=True))
    scene = ReadingScene()
    compared = scene.observe().compared
    assert isinstance(compared, Known)
    assert (compared.value, compared.source) == (COMPARED, SourceKind.ZOOKEEPER)
    assert scene.order == ["znodes", "cluster", "comparison"]
    demand(monkeypatch, ReadRequirements(znodes=True))
    assert scene.observe().compared == Unknown(NOT_ASKED)


@IN_BOTH_READINGS
def test_brokers_are_asked_for_the_controller_that_they_follow_after_the_znodes_and_only_if_required(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    scene = ReadingScene()

    async def named() -> dict[int, frozenset[int] | Failure]:
        scene.order.append("brokers")
        return {1: frozenset({2})}

    monkeypatch.setattr(scene.cluster, "named_controllers", named)
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(named_controllers=True))
    assert scene.observe(again=again).named_controllers == {1: frozenset({2})}
    assert scene.order == ["znodes", "cluster", "brokers"]
    demand(monkeypatch, ReadRequirements(znodes=True))
    assert scene.observe(again=again).named_controllers == {}
    assert scene.order == ["znodes", "cluster"]


def test_znodes_are_always_read_while_a_deletion_has_an_open_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements())
    scene = ReadingScene()
    step = release(reading(controller=claimed(), migration=progress()), partition_epoch=3)
    assert isinstance(step, DeleteZnodes)
    intent = DeletionInFlight(step, stamp(NOW), Via.ZOOKEEPER).to_intent().as_json()
    scene.store.status = {**scene.store.status, "intents": [intent]}
    assert isinstance(scene.observe().zookeeper, Known)
    scene.store.status = {**scene.store.status, "intents": [{**intent, "kind": "Future"}]}
    assert isinstance(scene.observe().zookeeper, Unknown)


# --- partitions that were read from the broker that /controller names ---

FROM_CONTROLLER = PartitionsReading(Partitions({}, (), MinInsyncReplicas({}, {}, None)), 1, claim=elected(czxid=90))


@IN_BOTH_READINGS
def test_partitions_read_from_the_controller_count_only_if_the_claim_is_the_same_afterwards(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, partitions=True))
    scene = ReadingScene(reading(controller=elected(czxid=90)))
    shown = scene.cluster.shows
    scene.cluster.shows = lambda readings: shown(readings)._replace(partitions=FROM_CONTROLLER)
    partitions = scene.observe(again=again).partitions
    assert isinstance(partitions, Known)
    assert partitions.value is FROM_CONTROLLER
    assert scene.order == ["znodes", "cluster", "/controller"]
    for moved in (elected(czxid=91), elected(2, czxid=91), None):
        scene.ensemble.moved = [moved]
        partitions = scene.observe(again=again).partitions
        assert isinstance(partitions, Unknown)
        assert partitions.failure.message == "the controller changed while they were read"


@IN_BOTH_READINGS
def test_the_cluster_is_read_with_the_claim_of_the_znodes_read_before(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, partitions=True))
    away = Failure(FailureKind.UNREACHABLE, f"ZooKeeper {ENSEMBLE}", "connection refused")
    for znodes_read, claim in ((reading(), claimed()), (reading(controller=None), None), (away, away)):
        scene = ReadingScene(znodes_read)
        scene.observe(again=again)
        assert scene.cluster.claims == [claim]


def test_without_an_ensemble_the_claim_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(partitions=True))
    scene = ReadingScene()
    scene.observe()
    assert scene.cluster.claims == [NOT_ASKED]


def test_all_znodes_are_surveyed_after_the_cluster_and_at_most_as_old_as_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, survey=60.0), ReadRequirements(survey=0.0))
    scene = ReadingScene()
    for again in (False, True):
        surveyed = scene.observe(again=again).surveyed
        assert isinstance(surveyed, Known)
        assert surveyed.value == SURVEY
        assert scene.order == ["znodes", "cluster", "survey, 0 s old"]
