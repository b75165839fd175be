"""What is read in one look, and in which order: all that the stages demand, and nothing else."""

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
from kafkafeatures.reconcile.evaluate import Evaluation, ReconcileContext, evaluate
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


class Demanding(Levels):
    """The levels, and what else is to be read: from the beginning, and once nodes were seen."""

    def __init__(self, first: ReadRequirements, then: ReadRequirements = NOTHING_MORE) -> None:
        self._first, self._then = first, then

    def demands(self, asked: ReadContext) -> ReadRequirements:
        return self._first if asked.observation is None else self._first | self._then


class Here:
    """One resource, its cluster in sync and its ensemble."""

    def __init__(self, found: ZooKeeperReading | Failure | None = None) -> None:
        self.cluster = Cluster(WANTED)
        self.store = Store(self.cluster, WANTED)
        self.ensemble = Ensemble(found or reading(), compares=COMPARED, surveys=SURVEY)
        self.cluster.shows = self._shows
        self.context: ReconcileContext = replace(context_of(self.cluster, self.store), zookeeper=self.ensemble)

    def looked(self, *, again: bool = False) -> Observation:
        """A look, and in `order` what was read for it."""
        self.order.clear()

        async def look() -> Observation:
            found = await evaluate(self.context, await self.store.read(), again=again)
            assert isinstance(found, Evaluation)
            return found.observation

        return asyncio.run(look())

    def _shows(self, found: Readings) -> Readings:
        self.order.append("cluster")
        return found

    @property
    def order(self) -> list[str]:
        return self.ensemble.happened


def demand(patch: pytest.MonkeyPatch, first: ReadRequirements, then: ReadRequirements = NOTHING_MORE) -> None:
    patch.setattr(kinds, "STAGES", (Demanding(first, then),))


def test_znodes_are_read_before_the_cluster_in_each_look_where_a_stage_demands_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    here = Here()
    for again in (False, True):
        seen = here.looked(again=again).zookeeper
        assert isinstance(seen, Known)
        assert (seen.value, seen.origin) == (reading(), ENSEMBLE)
        assert here.order == ["znodes", "cluster"]


def test_an_ensemble_is_left_alone_where_no_stage_demands_it(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(partitions=True))
    here = Here()
    for again in (False, True):
        assert here.looked(again=again).zookeeper == Unknown(NOT_ASKED)
        assert here.order == ["cluster"]


def test_znodes_that_are_demanded_and_no_ensemble_is_given_for_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    here = Here()
    here.context = replace(here.context, zookeeper=None)
    assert here.looked().zookeeper == Unknown(NOT_ASKED)


def test_why_an_ensemble_could_not_be_read_stays_and_the_cluster_is_read_nevertheless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True))
    away = Failure(FailureKind.UNREACHABLE, f"ZooKeeper {ENSEMBLE}", "connection refused")
    seen = Here(away).looked()
    assert seen.zookeeper == Unknown(away)
    assert isinstance(seen.finalized, Known)


def test_what_is_demanded_only_once_nodes_were_seen_is_read_with_everything_else_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(znodes=True))
    here = Here()
    assert isinstance(here.looked().zookeeper, Known)
    assert here.order == ["cluster", "znodes", "cluster"]
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(znodes=True))
    here.looked()
    assert here.order == ["znodes", "cluster"]  # nothing was missing


def test_of_another_cluster_nothing_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(znodes=True, partitions=True))
    here = Here()
    here.store.status = {"clusterId": "another"}
    here.looked()
    assert here.order == ["cluster"]
    assert here.cluster.reads == [False]


def test_every_node_is_asked_for_the_settings_that_stages_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(), ReadRequirements(settings=frozenset({INTERVAL})))
    here = Here()
    nodes = here.looked().nodes
    assert nodes
    assert all(INTERVAL in node.settings for node in nodes)
    demand(monkeypatch, ReadRequirements())
    assert not any(node.settings for node in here.looked().nodes)


def test_zookeeper_is_compared_with_the_log_last_and_only_where_that_is_demanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(comparison=True))
    here = Here()
    found = here.looked().compared
    assert isinstance(found, Known)
    assert (found.value, found.source) == (COMPARED, SourceKind.ZOOKEEPER)
    assert here.order == ["znodes", "cluster", "comparison"]
    demand(monkeypatch, ReadRequirements(znodes=True))
    assert here.looked().compared == Unknown(NOT_ASKED)


@pytest.mark.parametrize("again", [False, True])
def test_each_broker_is_asked_for_the_controller_that_it_follows_after_the_znodes_and_only_where_that_is_demanded(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    here = Here()

    async def named() -> dict[int, frozenset[int] | Failure]:
        here.order.append("brokers")
        return {1: frozenset({2})}

    monkeypatch.setattr(here.cluster, "named_controllers", named)
    demand(monkeypatch, ReadRequirements(znodes=True), ReadRequirements(named_controllers=True))
    assert here.looked(again=again).named_controllers == {1: frozenset({2})}
    assert here.order == ["znodes", "cluster", "brokers"]
    demand(monkeypatch, ReadRequirements(znodes=True))
    assert here.looked(again=again).named_controllers == {}
    assert here.order == ["znodes", "cluster"]


def test_while_it_is_not_known_whether_znodes_were_deleted_they_are_read_whatever_stages_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements())
    here = Here()
    step = release(reading(controller=claimed(), migration=progress()), partition_epoch=3)
    assert isinstance(step, DeleteZnodes)
    intent = DeletionInFlight(step, stamp(NOW), Via.ZOOKEEPER).to_intent().as_json()
    here.store.status = {**here.store.status, "intents": [intent]}
    assert isinstance(here.looked().zookeeper, Known)
    here.store.status = {**here.store.status, "intents": [{**intent, "kind": "Future"}]}
    assert isinstance(here.looked().zookeeper, Unknown)


# --- partitions that rest on /controller ---

RESTING = PartitionsReading(Partitions({}, (), MinInsyncReplicas({}, {}, None)), 1, claim=elected(czxid=90))


@pytest.mark.parametrize("again", [False, True])
def test_partitions_that_rest_on_the_controller_count_only_if_it_is_the_same_after_they_were_read(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, partitions=True))
    here = Here(reading(controller=elected(czxid=90)))
    shown = here.cluster.shows
    here.cluster.shows = lambda found: shown(found)._replace(partitions=RESTING)
    seen = here.looked(again=again).partitions
    assert isinstance(seen, Known)
    assert seen.value is RESTING
    assert here.order == ["znodes", "cluster", "/controller"]
    for moved in (elected(czxid=91), elected(2, czxid=91), None):
        here.ensemble.moved = [moved]
        seen = here.looked(again=again).partitions
        assert isinstance(seen, Unknown)
        assert seen.failure.message == "the controller changed while they were read"


@pytest.mark.parametrize("again", [False, True])
def test_the_cluster_is_read_with_the_claim_that_was_read_before(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, partitions=True))
    away = Failure(FailureKind.UNREACHABLE, f"ZooKeeper {ENSEMBLE}", "connection refused")
    for found, claim in ((reading(), claimed()), (reading(controller=None), None), (away, away)):
        here = Here(found)
        here.looked(again=again)
        assert here.cluster.claims == [claim]


def test_without_an_ensemble_no_claim_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    demand(monkeypatch, ReadRequirements(partitions=True))
    here = Here()
    here.looked()
    assert here.cluster.claims == [NOT_ASKED]


def test_all_znodes_are_surveyed_once_the_cluster_was_read_and_no_older_than_is_demanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demand(monkeypatch, ReadRequirements(znodes=True, survey=60.0), ReadRequirements(survey=0.0))
    here = Here()
    for again in (False, True):
        found = here.looked(again=again).surveyed
        assert isinstance(found, Known)
        assert found.value == SURVEY
        assert here.order == ["znodes", "cluster", "survey, 0 s old"]
