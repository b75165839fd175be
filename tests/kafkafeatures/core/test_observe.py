"""An observation made from the answers of nodes and the metadata log."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, MetadataMode, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.past import Returns
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    BrokerList,
    ClusterProbe,
    Failure,
    FailureKind,
    Host,
    LogReading,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kraftlog import FormerLevels, Image
from tests.kafkafeatures.core.fleets import pod, stateful_set
from tests.kafkafeatures.core.preflights import registered
from tests.kafkafeatures.ensembles import ENSEMBLE, elected, reading
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, asked, image, probe, quorum

NO_LOG = Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing", "grant it")
C1, C2 = asked(3001), asked(3002)


def log(at: Image) -> LogReading:
    return LogReading(at, at.offset, 3001, 4, NOW)


def observe_probe(probe: ClusterProbe, at: Image | Failure) -> Observation:
    return observe(probe, at if isinstance(at, Failure) else log(at))


def state_of(observation: Observation, id_: int) -> NodeState:
    return next(node.state for node in observation.nodes if node.id == id_)


def fetching(*ids: int, since_ms: int = 100) -> object:
    """Build the quorum with observers that fetched this long before the leader's clock."""
    replicas = tuple(ReplicaProgress(i, 100, 100_000 - since_ms, 100_000 - since_ms) for i in ids)
    leader = ReplicaProgress(3001, 100, 100_000, 100_000)
    return type(quorum())(3001, 4, 100, (leader,), replicas)


# Registered nodes: the second value of a broker is True if it is fenced.
REGISTERED = image(
    brokers={1: (NEW, False), 2: (NEW, True), 3: (NEW, False), 4: (OLD, True)},
    controllers={3001: NEW, 3002: NEW, 3003: OLD},
)


@pytest.mark.parametrize(
    ("ensemble_id", "says"),
    [
        ("of-another", "it is the ensemble of cluster of-another"),
        (None, "it has no znode /cluster/id"),
        (Failure(FailureKind.AUTHORIZATION, "znode /cluster/id", "not authorized to read it"), "not authorized"),
    ],
    ids=["of another cluster", "without a cluster id", "cluster id not readable"],
)
def test_an_ensemble_that_is_not_certainly_the_one_of_this_cluster_is_ignored(
    ensemble_id: str | Failure | None, says: str
) -> None:
    """Neither its brokers nor its controller count."""
    cluster_probe = replace(probe(asked(1, role=Role.BROKER)), controllers=SILENT)
    other = reading(cluster_id=ensemble_id, brokers={77: registered(77)})
    read = observe(cluster_probe, NO_LOG, zookeeper=other)
    assert isinstance(read.zookeeper, Unknown)
    assert says in str(read.zookeeper.failure)
    assert 77 not in {node.id for node in read.nodes}
    own = reading(cluster_id=cluster_probe.cluster_id, brokers={77: registered(77)}, controller=elected())
    assert 77 in {node.id for node in observe(cluster_probe, NO_LOG, zookeeper=own).nodes}


def test_an_ensemble_is_ignored_while_the_cluster_id_is_unknown() -> None:
    cluster_probe = replace(probe(asked(1, role=Role.BROKER)), cluster_id=SILENT)
    assert observe(cluster_probe, NO_LOG, zookeeper=reading()).zookeeper == Unknown(SILENT)


@pytest.mark.parametrize(
    ("id_", "node_answer", "voting", "expected"),
    [
        pytest.param(1, answer(), quorum(), NodeState.LIVE, id="unfenced broker that answers"),
        pytest.param(2, answer(), quorum(), NodeState.FENCED, id="fenced broker that answers"),
        pytest.param(3, SILENT, quorum(), NodeState.UNREACHABLE, id="silent unfenced broker"),
        pytest.param(4, SILENT, quorum(), NodeState.GHOST, id="silent fenced broker"),
        pytest.param(4, SILENT, fetching(4), NodeState.FENCED, id="silent fenced broker that fetches the log"),
        pytest.param(4, SILENT, fetching(4, since_ms=60_000), NodeState.GHOST, id="it fetched a minute ago"),
        pytest.param(3002, answer(), quorum(), NodeState.LIVE, id="controller that answers"),
        pytest.param(3002, SILENT, quorum(voters=(3001, 3002)), NodeState.UNREACHABLE, id="silent voter"),
        pytest.param(3003, SILENT, quorum(voters=(3001, 3002)), NodeState.GHOST, id="silent controller, no voter"),
        pytest.param(3003, SILENT, fetching(3003), NodeState.UNREACHABLE, id="silent observer that fetches the log"),
        pytest.param(3003, SILENT, SILENT, NodeState.UNREACHABLE, id="silent controller, quorum unknown"),
    ],
)
def test_the_state_of_a_registered_node_follows_from_log_answer_and_quorum(
    id_: int, node_answer: object, voting: object, expected: NodeState
) -> None:
    cluster_probe = probe(C1, asked(id_, node_answer), quorum=voting)  # type: ignore[arg-type]
    assert state_of(observe_probe(cluster_probe, REGISTERED), id_) is expected


def test_an_unregistered_node_that_only_fetches_the_metadata_log_is_refused() -> None:
    cluster_probe = probe(C1, asked(1), quorum=fetching(9))
    assert state_of(observe_probe(cluster_probe, image({1: (NEW, False)}, {3001: NEW})), 9) is NodeState.REFUSED


@pytest.mark.parametrize(("kind", "count"), [(FailureKind.AUTHORIZATION, 1), (FailureKind.TIMED_OUT, 3)])
def test_the_consequences_of_a_missing_right_to_ask_for_the_controllers_are_no_gaps_of_their_own(
    kind: FailureKind, count: int
) -> None:
    """Brokers name the controllers only to a user who may describe the quorum: nobody has to look for controllers."""
    lacks = Failure(kind, "h:1", "DescribeQuorum needs DESCRIBE", "grant it")
    no_address = Failure(FailureKind.NOT_ASKED, "bootstrapControllers", "no address is given", "name one")
    no_log = Failure(FailureKind.NOT_ASKED, "metadata log", "no controller that answers is known", "check it")
    seen = observe_probe(probe(asked(1), quorum=lacks, controllers=no_address), no_log)
    assert len(seen.gaps) == count
    assert lacks in seen.gaps


@pytest.mark.parametrize(("since_ms", "is_node"), [(2_000, False), (1_000, False), (999, True)])
def test_an_observer_that_fetched_last_before_it_was_unregistered_is_no_node(since_ms: int, is_node: bool) -> None:
    """The leader's list of observers keeps a controller for minutes that was stopped and then unregistered. This one
    was unregistered at 98 s by the leader's clock, which is at 100 s, and must have fetched more than 1 s later.
    """
    cluster_probe = probe(C1, asked(1), quorum=fetching(3002, since_ms=since_ms))
    observation = observe_probe(cluster_probe, image({1: (NEW, False)}, {3001: NEW}, unregistered={3002: 98_000}))
    assert (3002 in [node.id for node in observation.nodes]) is is_node
    assert not is_node or state_of(observation, 3002) is NodeState.REFUSED


def test_an_observer_that_may_be_a_registered_controller_is_not_refused() -> None:
    observation = observe_probe(probe(C1, asked(1), quorum=fetching(3002), controllers=SILENT), NO_LOG)
    (observer,) = (node for node in observation.nodes if node.id == 3002)
    assert (observer.state, observer.roles, observer.title) == (NodeState.UNREACHABLE, (), "node 3002")


def test_without_the_log_an_observer_that_is_registered_nowhere_is_refused_without_a_role() -> None:
    observation = observe_probe(probe(C1, asked(1), quorum=fetching(9)), NO_LOG)
    (observer,) = (node for node in observation.nodes if node.id == 9)
    assert (observer.state, observer.roles) == (NodeState.REFUSED, ())


def test_an_observer_that_fetched_last_a_minute_ago_is_no_node() -> None:
    cluster_probe = probe(C1, asked(1), quorum=fetching(9, since_ms=60_000))
    assert [node.id for node in observe_probe(cluster_probe, image({1: (NEW, False)}, {3001: NEW})).nodes] == [3001, 1]


def test_without_lists_of_fenced_brokers_a_silent_broker_is_unreachable_and_a_gap_is_reported() -> None:
    old_list = BrokerList((Host(1, "h", 1),), lists_fenced=False)
    observation = observe_probe(probe(C1, asked(1), asked(2, SILENT), brokers=old_list), NO_LOG)
    assert state_of(observation, 2) is NodeState.UNREACHABLE
    assert any("do not list fenced brokers" in gap.message for gap in observation.gaps)
    assert NO_LOG in observation.gaps


def test_without_the_metadata_log_a_fenced_silent_broker_is_a_ghost() -> None:
    listed = BrokerList((Host(1, "h", 1), Host(4, "h", 4, is_fenced=True)), lists_fenced=True)
    observation = observe_probe(probe(C1, asked(1), asked(4, SILENT), brokers=listed), NO_LOG)
    assert state_of(observation, 4) is NodeState.GHOST
    assert observation.source.kind is SourceKind.API_REQUESTS


def test_an_observation_with_the_metadata_log_has_its_offset_and_levels() -> None:
    observation = observe_probe(probe(C1, asked(1)), REGISTERED)
    assert (observation.source.kind, observation.source.offset, observation.source.epoch) == (
        SourceKind.METADATA_LOG,
        100,
        4,
    )
    assert isinstance(observation.finalized, Known)
    assert observation.finalized.value["metadata.version"] == 21


def test_past_levels_have_the_time_at_which_the_log_gave_them_up_and_the_start_of_the_log() -> None:
    """Times of records may lie anywhere: one far in the future is shown as the year 2100."""
    at = image(offset=500)
    assert at.finalized is not None
    dropped_ms = {("share.version", 2): 1_000, ("share.version", 1): 1 << 62}
    former = FormerLevels(dropped_ms, since_offset=400, since_ms=500)
    past_levels = observe_probe(probe(C1), replace(at, finalized=replace(at.finalized, former=former))).past_levels
    assert past_levels is not None
    assert (
        past_levels.given_up_at["share.version", 2].timestamp(),
        past_levels.since and past_levels.since.timestamp(),
    ) == (1, 0.5)
    assert past_levels.given_up_at["share.version", 1].year == 2100
    whole = observe_probe(probe(C1), at).past_levels
    assert whole is not None
    assert (whole.given_up_at, whole.since) == ({}, None)
    assert observe_probe(probe(C1, asked(1)), NO_LOG).past_levels is None


def test_a_log_and_a_controller_that_disagree_make_the_levels_unknown() -> None:
    observation = observe_probe(probe(asked(3001, answer(NEW, {"metadata.version": 20})), asked(1)), REGISTERED)
    assert isinstance(observation.finalized, Unknown)
    assert "metadata.version 21 in the log, 20 on the controller" in observation.finalized.failure.message


def test_the_level_of_kraft_version_is_the_one_that_the_controller_reports() -> None:
    says_one = answer(NEW, {"metadata.version": 21, "kraft.version": 1})
    observation = observe_probe(probe(asked(3001, says_one), asked(1)), REGISTERED)
    assert isinstance(observation.finalized, Known)
    assert observation.finalized.value["kraft.version"] == 1


def test_without_log_and_leader_the_levels_are_known_only_if_all_nodes_report_the_same() -> None:
    same = probe(asked(1), asked(2), quorum=SILENT, controllers=SILENT)
    assert isinstance(observe_probe(same, NO_LOG).finalized, Known)
    apart = probe(asked(1), asked(2, answer(NEW, {"metadata.version": 20})), quorum=SILENT, controllers=SILENT)
    assert isinstance(observe_probe(apart, NO_LOG).finalized, Unknown)


@pytest.mark.parametrize(
    ("probe", "at", "expected"),
    [
        (probe(C1, asked(1)), REGISTERED, MetadataMode.KRAFT),
        (probe(C1, asked(1)), image(zk_migration_state=1), MetadataMode.MIGRATING),
        (probe(C1, asked(1)), image(zk_migration_state=2), MetadataMode.MIGRATING),
        (probe(C1, asked(1)), image(zk_migration_state=3), MetadataMode.KRAFT),
        # A broker without DescribeQuorum (55) runs in ZooKeeper mode.
        (probe(asked(1, answer({}, {}, keys=(18,)))), NO_LOG, MetadataMode.ZOOKEEPER),
        (probe(C1, asked(1, answer({}, {}, keys=(18,)))), NO_LOG, MetadataMode.MIGRATING),
        (probe(C1, asked(1)), NO_LOG, MetadataMode.KRAFT),
    ],
    ids=[
        "log without a migration", "state MIGRATION", "state PRE_MIGRATION", "state POST_MIGRATION",
        "broker in ZooKeeper mode, no controller", "broker in ZooKeeper mode, a controller", "broker in KRaft mode",
    ],
)  # fmt: skip
def test_the_metadata_mode_follows_from_the_migration_state_of_the_log_and_the_answers_of_nodes(
    probe: ClusterProbe, at: Image | Failure, expected: MetadataMode
) -> None:
    mode = observe_probe(probe, at).mode
    assert isinstance(mode, Known)
    assert mode.value is expected


def test_a_combined_node_is_one_node() -> None:
    cluster_probe = probe(asked(1), asked(1, role=Role.CONTROLLER), quorum=quorum(voters=(1,)))
    (node,) = observe_probe(cluster_probe, image({1: (NEW, False)}, {1: NEW})).nodes
    assert node.roles == (Role.CONTROLLER, Role.BROKER)
    assert set(node.registered) == {Role.BROKER, Role.CONTROLLER}
    assert node.title == "node 1"


@pytest.mark.parametrize(
    ("parts", "read", "expected"),
    [
        pytest.param({}, NO_LOG, FailureKind.NOT_ASKED, id="no proof"),
        pytest.param(
            {}, replace(NO_LOG, kind=FailureKind.WRONG_CLUSTER), FailureKind.WRONG_CLUSTER, id="log of another cluster"
        ),
        pytest.param({}, REGISTERED, None, id="the leader confirmed the cluster id"),
        pytest.param({"controllers": probe(C1).controllers}, NO_LOG, None, id="the list of controllers confirmed it"),
        pytest.param({"named_apart": False}, NO_LOG, None, id="the brokers named these controllers"),
        pytest.param({"nodes": (asked(1), asked(3001, SILENT))}, NO_LOG, None, id="no controller answers"),
    ],
)
def test_controllers_that_may_be_of_another_cluster_leave_its_id_unknown(
    parts: dict[str, object], read: Image | Failure, expected: FailureKind | None
) -> None:
    silent = Failure(FailureKind.UNSUPPORTED, "DescribeCluster", "metadata.version is below 3.7-IV0")
    cluster_probe = probe(asked(1), C1, **{"controllers": silent, "named_apart": True, **parts})
    cluster_id = observe_probe(cluster_probe, read).cluster_id
    assert (cluster_id.failure.kind if isinstance(cluster_id, Unknown) else None) == expected


# --- ZooKeeper ---


def test_znodes_have_their_ensemble_as_origin_and_are_unknown_where_no_ensemble_was_read() -> None:
    cluster_probe, at, znodes = probe(C1), log(image()), reading(cluster_id=probe(C1).cluster_id)
    zookeeper = observe(cluster_probe, at, zookeeper=znodes).zookeeper
    assert isinstance(zookeeper, Known)
    assert (zookeeper.value, zookeeper.source, zookeeper.origin, zookeeper.at) == (
        znodes,
        SourceKind.ZOOKEEPER,
        ENSEMBLE,
        NOW,
    )
    away = Failure(FailureKind.UNREACHABLE, f"ZooKeeper {ENSEMBLE}", "connection refused")
    assert observe(cluster_probe, at, zookeeper=away).zookeeper == Unknown(away)
    assert observe(cluster_probe, at).zookeeper == Unknown(NOT_ASKED)


# --- pods ---


def test_only_the_first_eight_pods_whose_restart_is_requested_count() -> None:
    """A plan names each of them. The others count once these are over."""
    names = [f"broker-{number}" for number in range(10, 20)]
    pods = [pod(number, name=name, restart_requested=True) for number, name in enumerate(names)]
    for pods_read, counted in ((pods[:8], names[:8]), (pods, names[:8]), (pods[2:], names[2:])):
        reading_of = WorkloadsReading(NOW, (stateful_set(*pods_read),))
        workloads = observe(probe(C1), log(image()), workloads=reading_of).workloads
        assert isinstance(workloads, Known)
        assert [pod.name for pod in workloads.value.stateful_sets[0].pods if pod.restart_requested] == counted


def test_the_time_of_a_nodes_return_is_counted_from_the_end_of_the_log() -> None:
    """A broker registered 10 s ago, a controller 90 s ago, by the time that passed between batches since. The last part
    of `Returns` identifies each return, so that the process knows it again (`Mark`).
    """
    log_image = image(brokers={1: (NEW, False), 2: (NEW, False)}, controllers={3001: NEW})
    end_ms = int(NOW.timestamp() * 1000)
    assert log_image.registrations is not None
    times = replace(log_image.registrations, registered={1: 110_000, 2: 30_000}, returned={1: 110_000, 3001: 30_000})
    returns = observe_probe(probe(), replace(log_image, registrations=times, timestamp_ms=end_ms, elapsed_ms=120_000))
    back = {1: NOW - timedelta(seconds=10), 3001: NOW - timedelta(seconds=90)}
    assert returns.returns == Returns(back, NOW, {1: (0, 110_000), 3001: (0, 30_000)})
    assert returns.last_registration is not None
    assert (returns.last_registration.at, returns.last_registration.read_at) == (NOW - timedelta(seconds=10), NOW)
    assert observe_probe(probe(C1, C2), NO_LOG).returns is None


@pytest.mark.parametrize(("silent_s", "counted_s"), [(5, 5), (60, 60), (900, 60)])
def test_a_silent_log_adds_at_most_a_minute_of_the_leaders_clock_to_the_time_since_a_return(
    silent_s: int, counted_s: int
) -> None:
    log_image = image(brokers={1: (NEW, False)}, controllers={3001: NEW})
    end_ms = int(NOW.timestamp() * 1000)
    assert log_image.registrations is not None
    times = replace(log_image.registrations, registered={1: 110_000}, returned={1: 110_000})
    at = replace(log_image, registrations=times, timestamp_ms=end_ms, elapsed_ms=120_000)
    now, asked_at = NOW + timedelta(seconds=silent_s), end_ms + silent_s * 1000
    back = now - timedelta(seconds=10 + counted_s)  # by the batches, it returned 10 s before the end of the log
    observation = observe_probe(probe(C1, quorum=quorum(fetched=asked_at)), at)
    assert observation.returns == Returns({1: back}, now, {1: (0, 110_000)})
    assert observation.last_registration is not None
    assert (observation.last_registration.at, observation.last_registration.read_at) == (back, now)
    # Without the leader's time: no answer, a leader of a later epoch than the log's, an answer without times.
    for without_time in (SILENT, quorum(epoch=5, fetched=asked_at), quorum(fetched=-1)):
        observation = observe_probe(probe(C1, quorum=without_time), at)
        assert observation.returns == Returns({1: NOW - timedelta(seconds=10)}, NOW, {1: (0, 110_000)})
        assert observation.last_registration is None
