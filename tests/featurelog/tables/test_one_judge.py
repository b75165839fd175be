"""The pipeline and the operator give the same verdict on the same log.

Each log is replayed twice: into the history of the pipeline, and into the image that the operator observes. The
operator knows nothing beyond the log: a node answers with the configs in the log only. A downgrade that needs a consent
but loses nothing has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted
from kafkafeatures.core.facts.observation import Node, Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    QuorumAnswer,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.facts.releases import CONTROLLER_REGISTRATION, Undo
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.core.levels.check_input import LevelCheckInput, unknown_features_in
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.readiness import undo_of_downgrade
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kraftlog.image import Section
from kraftlog.partition_records import BROKER_RESOURCE
from kraftlog.replay import Replay
from tests.featurelog.tables.build import (
    LATEST,
    OF_3_9,
    VOTERS,
    Item,
    changed,
    copies_of,
    healthy,
    image_of,
    kraft_version,
    leader,
    level,
    log,
    migration,
    min_insync,
    ranges,
    registered_broker,
    registered_controller,
    rows,
    unregistered_broker,
)
from tests.kafkafeatures.worlds import NOW

OF_4_0 = ranges(metadata_version=25, kraft_version=1, transaction_version=2, group_version=1)
SUPPORTED = st.sampled_from((LATEST, LATEST, LATEST, OF_4_0, OF_3_9))
NOT_ASKED = Failure(FailureKind.NOT_ASKED, "the log", "nothing was asked")


@st.composite
def logs(draw: st.DrawFn) -> tuple[Item, ...]:
    """The log of a cluster in which every record is committed, and every voter known."""
    version = draw(st.sampled_from((27, 27, 27, 29, 33, 21, 20, 14, 7)))
    items: list[Item] = [leader(3001), level(METADATA_VERSION, version)]
    if draw(st.booleans()):
        items.append(kraft_version(1))
    if version >= CONTROLLER_REGISTRATION:  # below it, controllers do not register
        registered = draw(st.sampled_from((VOTERS, VOTERS, VOTERS[1:], (*VOTERS, 3009), (*VOTERS, 1))))
        items += [registered_controller(number, supports=draw(SUPPORTED)) for number in registered]
    items += [registered_broker(8, 108, fenced=False), registered_broker(9, 109)]
    for number in draw(st.lists(st.integers(1, 4), unique=True)):
        items.append(registered_broker(number, 100 + number, supports=draw(SUPPORTED)))
        fenced = draw(st.sampled_from((-1, -1, 1)))
        items.append(changed(number, 100 + number, fenced=fenced))
        if fenced < 0 and draw(st.integers(0, 3)) == 3:  # the operator does not judge the settings of a ghost
            items.append(min_insync(draw(st.sampled_from(("1", "2", None))), str(number)))
        if draw(st.integers(0, 5)) == 5:
            items.append(unregistered_broker(number, 100 + number))
    items += [min_insync(value) for value in draw(st.sampled_from(((), ("2",), ("2",), ("1", "2"), ("2", None))))]
    others = ("group.version", "transaction.version", "share.version", "eligible.leader.replicas.version")
    items += [level(name, draw(st.integers(0, 2))) for name in draw(st.lists(st.sampled_from(others), unique=True))]
    if draw(st.integers(0, 3)) == 3:
        items.append(migration(draw(st.integers(0, 4))))
    return tuple(items)


def observed(data: bytes, end: int) -> Observation:
    """The observation of the operator: all voters have the whole log, and no node was asked."""
    voters = tuple(ReplicaProgress(one, end, 1_000, 1_000) for one in VOTERS)
    quorum = QuorumAnswer(3001, 1, end, voters, ())
    probe = ClusterProbe(at=NOW, cluster_id="c", brokers=NOT_ASKED, controllers=NOT_ASKED, quorum=quorum, nodes=())
    seen = observe(probe, LogReading(image_of(data, end), end, 3001, 1, NOW))
    configs = Replay(sections=[Section.CONFIGS])
    configs.append(data, below=end)
    values = configs.image().configs.values
    return replace(seen, nodes=tuple(with_configs(node, values) for node in seen.nodes))


def with_configs(node: Node, values: Mapping[tuple[int, str, str], Any]) -> Node:
    """The node with the values that requests have set, and without the value in its file."""
    named = {SettingSource.NODE: str(node.id), SettingSource.ALL_BROKERS: ""}
    keys = {source: (BROKER_RESOURCE, name, MIN_INSYNC_REPLICAS) for source, name in named.items()}
    layers = {source: values[key] for source, key in keys.items() if key in values}
    if Role.BROKER not in node.roles or not layers:
        return node
    source = min(layers)
    setting = Setting(source, layers[source], layers=layers)
    return replace(node, proved_at="198.18.0.1", settings={MIN_INSYNC_REPLICAS: setting})


def preflight(
    seen: Observation, changes: Sequence[UpdateFeature], verdict: DryRun | None = None
) -> tuple[Blocker, ...]:
    consents = frozenset(one.consent for one in changes if one.consent and undo(one) is Undo.SAFE)
    missing = unknown_features_in({one.feature: one.to_level for one in changes}, seen)
    return blockers(LevelCheckInput(seen, tuple(changes), consents=consents, unknown_features=missing, verdict=verdict))


def undo(change: UpdateFeature) -> Undo:
    return undo_of_downgrade(change.feature, change.from_level, change.to_level)


NODES = (BlockerKind.NODE_RANGE, BlockerKind.GHOST_REGISTRATION)


def blockers_of_operator(found: Iterable[Blocker]) -> dict[str, set[Any]]:
    """The blockers of the operator, in terms that the pipeline has too."""
    found = [one for one in found if one.failure_kind is None]
    named = [one for one in found if one.node is not None and one.kind in NODES]
    return {
        "nodes": {(node.id, one.feature) for one in named for node in one.nodes},
        "dependencies": {one.message for one in found if one.kind is BlockerKind.DEPENDENCY},
        "losses": {one.feature for one in found if one.kind is BlockerKind.DOWNGRADE},
        "migration": {one.kind for one in found if one.kind is BlockerKind.MIGRATION},
        "settings": {one.message for one in found if one.kind is BlockerKind.SETTING and not is_unread(one)},
    }


def is_unread(blocker: Blocker) -> bool:
    """Tell whether the blocker exists only because a file was not read."""
    return blocker.kind is BlockerKind.SETTING and "is not known" in blocker.message


def blockers_of_pipeline(row: Mapping[str, Any]) -> dict[str, set[Any]]:
    """The blockers of the pipeline, in terms that the operator has too."""
    registered = [one for one in row["blocking_nodes"] if one["reason"] != "ControllerNotRegistered"]
    too_old = "ControllerTooOld"  # of a range of metadata.version, for a change of kraft.version
    others = {(one["kind"], one["text"]) for one in row["other_blockers"]}
    return {
        "nodes": {
            (one["node_id"], KRAFT_VERSION if one["reason"] == too_old else one["feature"]) for one in registered
        },
        "dependencies": {text for kind, text in others if kind == "Dependency"},
        "losses": {one["feature"] for one in row["downgrade_losses"]},
        "migration": {BlockerKind.MIGRATION for kind, _ in others if kind == "Migration"},
        "settings": {text for kind, text in others if kind == "Setting"},
    }


def are_about_single_nodes(found: Iterable[Blocker]) -> bool:
    """Tell whether each blocking node has a blocker. False if one blocker is about all nodes, as none has the feature
    or the level.
    """
    return all(
        one.kind is not BlockerKind.UNKNOWN_FEATURE and one.reason is not Reason.UNSUPPORTED_LEVEL for one in found
    )


@settings(max_examples=60, deadline=None)
@given(logs())
def test_the_pipeline_and_the_operator_give_the_same_verdict(
    items: tuple[Item, ...],
) -> None:
    data = log(items)
    seen = observed(data, len(items))
    for row in rows(copies_of(data), "upgrade_readiness"):
        changes = [UpdateFeature(one["feature"], one["from_level"], one["to_level"]) for one in row["changes"]]
        found = preflight(seen, changes) if changes else ()
        assert (row["verdict"] == "ready") == (not found), (row, found)
        of_operator, of_pipeline = blockers_of_operator(found), blockers_of_pipeline(row)
        if not are_about_single_nodes(found):
            assert of_operator["nodes"] <= of_pipeline["nodes"]
            of_operator["nodes"] = of_pipeline["nodes"]
        assert of_operator == of_pipeline, (row, found)
        doubts = {one["kind"] for one in row["unknown_because"]}
        unread = [
            one
            for one in found
            if one.failure_kind is not None or one.kind is BlockerKind.NODE_UNKNOWN or is_unread(one)
        ]
        voters = [one for one in row["blocking_nodes"] if one["reason"] == "ControllerNotRegistered"]
        assert bool(unread) == bool(doubts or voters), (row, found)
        if voters:  # a dry run that Kafka accepts proves nothing about a voter that never registered
            assert preflight(seen, changes, DryRunAccepted()), row


def test_a_combined_node_has_the_supported_ranges_of_the_older_of_its_two_registrations() -> None:
    items = (
        *healthy(),
        registered_controller(1),
        registered_broker(1, 200, supports=OF_4_0),
        changed(1, 200, fenced=-1),
    )
    data = log(items)
    (row,) = (one for one in rows(copies_of(data), "upgrade_readiness") if one["target"] == "kraft.version=1")
    assert [(one["node_id"], one["reason"]) for one in row["blocking_nodes"]] == [(1, "ControllerTooOld")]
    assert preflight(observed(data, len(items)), [UpdateFeature(KRAFT_VERSION, 0, 1)])


@pytest.mark.parametrize(
    ("more", "verdict", "kind"),
    [
        ((), "ready", None),
        ((registered_broker(9, 200, supports=OF_3_9),), "blocked", BlockerKind.GHOST_REGISTRATION),
        (
            (registered_broker(9, 200, supports=OF_3_9), changed(9, 200, fenced=-1)),
            "blocked",
            BlockerKind.NODE_RANGE,
        ),
        ((migration(1),), "blocked", BlockerKind.MIGRATION),
        ((migration(4),), "unknown", BlockerKind.MIGRATION),
        ((registered_broker(9, 200, isMigratingZkBroker=True), migration(3)), "blocked", BlockerKind.MIGRATION),
    ],
    ids=[
        *("all is well", "a ghost", "an old broker", "a migration", "a state of a migration that no release knows"),
        "a migration that was finalized without a broker",
    ],
)
def test_the_pipeline_and_the_operator_have_the_same_blockers_for_one_cluster(
    more: tuple[Item, ...], verdict: str, kind: BlockerKind | None
) -> None:
    items = (*healthy(), *more)
    data = log(items)
    (row,) = (one for one in rows(copies_of(data), "upgrade_readiness") if one["target"] == "metadata.version=28")
    found = preflight(observed(data, len(items)), [UpdateFeature(METADATA_VERSION, 27, 28)])
    assert (row["verdict"], {one.kind for one in found}) == (verdict, set() if kind is None else {kind})
