"""The release of a controller that may not be asked is inferred from its pod: enough for a soak, and to be shown; never
a proof that it supports a level.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.inferred import with_inferred_releases
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.node_ranges import every_node_supports_it
from kafkafeatures.core.levels.soak import Soak, soak_of
from kafkafeatures.core.report.cluster_document import cluster_document
from tests.kafkafeatures.core.fleets import pod, stateful_set
from tests.kafkafeatures.deciding import changes_in, facts_of, propose
from tests.kafkafeatures.worlds import NOW, answer, known, node, observation, quorum

CLOSED = Failure(FailureKind.UNREACHABLE, "controller-1:9090", "no answer in 10 s")
BROKER = {"metadata.version": (7, 30), "kraft.version": (0, 1)}
DAY = timedelta(hours=24)
WANTED = DesiredState({"metadata.version": 30}, finalize_after=DAY, uid="1")
LEVELS = {"metadata.version": 29}


def controller(**fields: Any) -> Node:
    """A controller whose port is closed for us, at the name of its pod."""
    node_ = node(3001, state=NodeState.UNREACHABLE, said=CLOSED, written=None)
    return replace(node_, host="controller-1.kafka.kafka.svc.cluster.local", port=9090, **fields)


def running(**fields: Any) -> Pod:
    """The pod of the controller, an hour old."""
    values = {"name": "controller-1", "release": "4.3", "started_at": NOW - timedelta(hours=1), **fields}
    return pod(1, **values)


def seen(*pods: Pod, of: Node | None = None, fetched: int = 1000) -> Observation:
    """A broker that answers, a controller that does not, and the pods. `fetched`: time of the last fetch of a second
    voter, by the clock of the first.
    """
    broker = node(1, said=answer(BROKER, LEVELS), written=None)
    first, second = quorum(voters=(3002, 3001)).voters
    voting = replace(quorum(voters=(3002, 3001)), voters=(first, replace(second, last_fetch_timestamp=fetched)))
    reading = WorkloadsReading(NOW, (stateful_set(*pods),))
    cluster = observation(of or controller(), broker, levels=LEVELS, voting=voting)
    nobody = Unknown(CLOSED)
    return with_inferred_releases(replace(cluster, registered_controllers=nobody, workloads=known(reading)))


def test_the_release_that_its_pod_names_gives_the_ranges() -> None:
    inferred = seen(running()).nodes[0].inferred
    assert inferred is not None
    assert (inferred.release, inferred.pod) == ("4.3", "controller-1")
    assert inferred.ranges["metadata.version"] == VersionRange(7, 30)


NOT_INFERRED: dict[str, Callable[[], Observation]] = {
    "no release": lambda: seen(running(release="")),
    "an unknown release": lambda: seen(running(release="9.9")),
    "not ready": lambda: seen(running(ready=False)),
    "being stopped": lambda: seen(running(terminating=True)),
    "not started": lambda: seen(running(started_at=None)),
    "a pod of another name": lambda: seen(running(name="controller-2")),
    "an address of two pods": lambda: seen(running(), replace(running(), name="other", uid="other")),
    "it fetches no longer": lambda: seen(running(), fetched=-1),
    "it answers": lambda: seen(running(), of=replace(controller(), state=NodeState.LIVE, answer=known(answer(BROKER)))),
    "it is registered": lambda: seen(running(), of=replace(node(3001, said=CLOSED), host=controller().host)),
    "a ghost": lambda: seen(running(), of=controller(state=NodeState.GHOST)),
    "a broker": lambda: seen(running(), of=controller(roles=node(1).roles)),
    "pods that were not read": lambda: with_inferred_releases(observation(controller())),
}


@pytest.mark.parametrize("case", NOT_INFERRED.values(), ids=NOT_INFERRED)
def test_nothing_is_inferred_where_a_fact_is_missing(case: Callable[[], Observation]) -> None:
    assert [node.inferred for node in case().nodes] == [None] * len(case().nodes)


def soaking(cluster: Observation, before: Soak | None = None, seconds: float = 0.0) -> Soak:
    changes = changes_in(propose(WANTED, cluster, Memory()))
    facts = replace(
        facts_of(WANTED, cluster, now=NOW + timedelta(seconds=seconds)), monotonic=seconds, read_at=seconds,
        stage_memory={} if before is None else {"Levels": before},
    )  # fmt: skip
    soak = soak_of(facts, changes)
    assert soak is not None
    return soak


def test_a_soak_lasts_without_access_to_the_controllers() -> None:
    soak = soaking(seen(running()))
    for seconds in range(30, int(DAY.total_seconds()) + 1, 30):
        soak = soaking(seen(running()), soak, seconds)
    assert soak.is_over


def test_a_soak_does_not_begin_without_the_pod_or_on_an_older_release() -> None:
    assert soaking(seen()).why_not == "controller 3001 is Unreachable"
    assert soaking(seen(running(release="4.2"))).why_not == "controller 3001 supports metadata.version 7-29"


@pytest.mark.parametrize("change", [{"uid": "other"}, {"started_at": NOW}], ids=["another pod", "another container"])
def test_a_soak_begins_anew_when_the_process_in_the_pod_is_another_one(change: dict[str, object]) -> None:
    soak = soaking(seen(running(**change)), soaking(seen(running())), 30)
    assert soak.anew == "controller 3001 was restarted"


@pytest.mark.parametrize(
    ("verdict", "kinds"),
    [
        (DryRunAccepted(), []),
        (DryRunRejected(95, "Controller 3001 only supports 7-29"), [BlockerKind.NODE_UNKNOWN] * 2),
        (None, [BlockerKind.NODE_UNKNOWN]),
    ],
    ids=["accepted", "rejected", "none"],
)
def test_only_the_dry_run_proves_that_it_supports_a_level(verdict: DryRun | None, kinds: list[BlockerKind]) -> None:
    cluster = seen(running())
    inputs = LevelCheckInput(cluster, changes_between({"metadata.version": 30}, LEVELS), verdict)
    assert [blocker.kind for blocker in every_node_supports_it(inputs)] == kinds
    assert isinstance(cluster.nodes[0].range_of("metadata.version"), Unknown)


def test_a_document_marks_what_is_inferred() -> None:
    shape = cluster_document(seen(running()))["nodes"][0]
    assert (shape["features"], shape.get("inferredRelease")) == ({}, None)
    inferred = shape["inferredFromPod"]
    assert (inferred["pod"], inferred["release"]) == ("controller-1", "4.3")
    assert inferred["features"]["metadata.version"] == {"min": 7, "max": 30}
