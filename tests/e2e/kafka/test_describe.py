"""`describe` on real clusters, with Kafka's own tool as the oracle."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient

from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.facts.releases import level_name
from kafkafeatures.kafka.base.api_names import API_NAMES
from tests.e2e.kafka.cli import describe, node, run, wait_for
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

API_KEYS = {name: key for key, name in API_NAMES.items()}


@pytest.fixture
def cluster(six: Cluster) -> Cluster:
    return six


def test_every_feature_is_reported_as_kafkas_own_tool_reports_it(cluster: Cluster) -> None:
    theirs = cluster.features()
    document = describe(cluster)
    ours = {}
    for feature in document["features"]:
        name = feature["name"]
        triple = feature["supportedMin"], feature["supportedMax"], feature["finalized"]
        ours[name] = tuple(level_name(name, level) or str(level) for level in triple)
    assert ours == theirs
    assert document["clusterId"] == cluster.cluster_id
    assert document["activeController"] == cluster.leader()


def test_describe_shows_the_same_cluster_from_brokers_alone_and_from_controllers_alone(cluster: Cluster) -> None:
    from_brokers = describe(cluster)
    from_controllers = describe(cluster, servers=False, controllers=True)
    for document in (from_brokers, from_controllers):
        assert document["source"]["kind"] == "MetadataLog"
        assert document["notRead"] == []
        assert {one["id"]: one["state"] for one in document["nodes"]} == dict.fromkeys(cluster.nodes, "Live")
    without_source = [
        {key: value for key, value in document.items() if key != "source"}
        for document in (from_brokers, from_controllers)
    ]
    assert without_source[0] == without_source[1]


def test_describe_shows_the_brokers_features_and_apis_that_an_independent_client_reads(cluster: Cluster) -> None:
    document = describe(cluster, "--apis")
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as client:
        listed, features = client.describe_cluster(), client.describe_features()
        # Its enumeration of APIs ends before those of Kafka 4.4.
        apis = client.api_versions() if cluster.version != NEWEST else None
    assert listed["cluster_id"] == document["clusterId"]
    brokers = [one for one in document["nodes"] if one["roles"] == ["Broker"]]
    assert {(one["broker_id"], one["host"], one["port"]) for one in listed["brokers"]} == {
        (one["id"], one["host"], one["port"]) for one in brokers
    }
    for one in brokers:
        keys = {API_KEYS[name]: (api["min"], api["max"]) for name, api in one["apis"].items()}
        assert apis is None or keys == {int(key): versions for key, versions in apis.items()}
        for name, told in features.items():
            assert (one["features"][name]["min"], one["features"][name]["max"]) == told["supported"]
            assert one["finalized"].get(name, 0) == told.get("finalized", (0, 0))[1]


def test_the_api_matrix_has_every_api_of_every_node(cluster: Cluster) -> None:
    document = describe(cluster, "--apis")
    for one in document["nodes"]:
        apis = one["apis"]
        assert apis["ApiVersions"]["min"] == 0
        assert "DescribeQuorum" in apis
        assert "UpdateFeatures" in apis
        assert ("Metadata" in apis) == ("Broker" in one["roles"])


def test_the_table_fits_80_columns_and_is_plain_in_a_pipe(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run("describe", "--bootstrap-server", cluster.bootstrap_servers)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "metadata.version" in done.stdout
    assert "1-3" in done.stdout


def test_a_stopped_broker_is_shown_as_a_ghost_and_a_stopped_controller_as_unreachable(cluster: Cluster) -> None:
    standby = next(n.id for n in cluster.controllers if n.id != cluster.leader())
    cluster.nodes[2].stop()
    cluster.nodes[standby].kill()
    try:
        # The leader takes a broker that only just fetched the log for a running one, so its word is waited for.
        wait_for(cluster, NodeState.GHOST, 2)
        document = describe(cluster)
        assert node(document, standby)["state"] == "Unreachable"
        assert "refused" in node(document, standby)["why"]
        assert {one["state"] for one in document["nodes"]} == {"Live", "Ghost", "Unreachable"}
        # What they can do is still known, from their registrations.
        assert node(document, 2)["features"] == node(document, 1)["features"]
        text = run("describe", "--bootstrap-server", cluster.bootstrap_servers).stdout
        assert f"Unreachable controller {standby}" in text
        assert "Ghost       broker 2" in text
    finally:
        cluster.nodes[2].start()
        cluster.nodes[standby].start()


def test_an_old_broker_that_the_controller_refuses_is_shown_as_refused(borrow: Callable[[str], Cluster]) -> None:
    cluster = borrow(f"small {NEWEST}")
    old = cluster.add_broker(9, MIDDLE, start=False)
    try:
        old.start(wait=False)
        wait_until("it is refused", lambda: "UNSUPPORTED_VERSION" in old.log)
        document = describe(cluster)
        assert node(document, 9)["state"] == "Refused"
        assert node(document, 1)["state"] == "Live"
    finally:
        cluster.remove_node(9)


def test_combined_nodes_are_one_node_with_two_roles(combined: Cluster) -> None:
    for servers, controllers in ((True, False), (False, True), (True, True)):
        document = describe(combined, servers=servers, controllers=controllers)
        assert [(one["id"], one["roles"], one["state"]) for one in document["nodes"]] == [
            (id_, ["Controller", "Broker"], "Live") for id_ in (1, 2, 3)
        ]
