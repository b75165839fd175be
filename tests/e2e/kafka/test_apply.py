"""`apply -f` on a real cluster: levels are raised once and read back, also while nodes fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kafkafeatures.api.reasons import Condition
from kafkafeatures.core.engine.decisions import Done
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.reconcile.act import Reconciliation, reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from tests.e2e.kafka.cli import KAFKAFEATURES, SELDOM, active, describe, levels, run, write_document
from tests.e2e.kafka.wire import feature_records
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST, OLD
from tests.kafkafeatures.documents import read_file
from tests.kafkafeatures.terminal import PROGRAM as IN_TERMINAL
from tests.kafkafeatures.terminal import in_terminal

UPDATE_FEATURES = 57


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("live")
    with Cluster(root, NEWEST, release_version="3.9", controllers=3, brokers=2) as running:
        yield running


@pytest.fixture
def cluster(live: Cluster) -> Iterator[Cluster]:
    """Each test raises metadata.version higher than the one before, and finds all nodes running."""
    yield live
    live.heal()


def test_levels_are_raised_and_verified_and_the_next_apply_sends_nothing(cluster: Cluster, tmp_path: Path) -> None:
    before = feature_records(cluster)
    lonely = write_document(
        tmp_path / "lonely.yaml",
        {"eligible.leader.replicas.version": 1},
        bootstrapServers=cluster.bootstrap_servers,
    )
    refused = run("apply", "-f", str(lonely))
    assert refused.returncode == 4
    assert "requires metadata.version 23 (4.0-IV1)" in refused.stderr

    document = write_document(
        tmp_path / "levels.yaml",
        {"group.version": 1, "metadata.version": "4.2-IV1"},
        bootstrapServers=cluster.bootstrap_servers,
    )
    first = run("apply", "-f", str(document), "-o", "json")
    assert first.returncode == 0, first.stderr
    status = json.loads(first.stdout)["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Ready": "True",
        "Reachable": "True",
        "FeaturesFinalized": "True",
    }
    assert status["changeCount"] == 2
    assert [one["action"] for one in status["history"]] == ["metadata.version 21 -> 29", "group.version 0 -> 1"]
    features = cluster.features()
    assert (features["metadata.version"][2], features["group.version"][2]) == ("4.2-IV1", "1")
    assert feature_records(cluster) == before + 2

    state = document.with_suffix(".status.yaml")
    written = state.read_bytes()
    second = run("apply", "-f", str(document))
    assert second.returncode == 0
    assert state.read_bytes() == written
    assert feature_records(cluster) == before + 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"metadata.version": 99}, "no node supports metadata.version 99"),
        ({"metadata.version": 20}, "is a downgrade"),
        ({"group.versoin": 1}, "did you mean group.version? features of this cluster: "),
        (
            {"metadata.version": 22, "group.version": 7},
            "no node supports group.version 7; the highest level that any node supports is 1",
        ),
    ],
)
def test_a_document_that_cannot_be_applied_is_refused_with_the_reason(
    refusing: Cluster, tmp_path: Path, wanted: dict[str, int], message: str
) -> None:
    before = feature_records(refusing)
    document = write_document(tmp_path / "levels.yaml", wanted, bootstrapServers=refusing.bootstrap_servers)
    done = run("apply", "-f", str(document), "-o", "json")
    assert done.returncode == 4, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    conditions = {c["type"]: c for c in json.loads(done.stdout)["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    assert conditions["Stalled"]["status"] == "True"
    assert feature_records(refusing) == before


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a broker of an old release, so that some levels cannot be raised."""
    folder = tmp_path_factory.mktemp("refusing")
    with Cluster(folder, NEWEST, release_version="3.9", controllers=1, brokers=2, versions={2: OLD}) as running:
        yield running


def test_a_live_old_broker_is_named_by_the_error_message_and_no_update_is_sent(
    refusing: Cluster, tmp_path: Path
) -> None:
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 29}, bootstrapServers=refusing.bootstrap_servers
    )
    done = run("apply", "-f", str(document), "--timeout", "15s")
    assert done.returncode == 5
    assert "broker 2" in done.stderr
    assert "supports metadata.version 1-21" in done.stderr
    status = yaml.safe_load(document.with_suffix(".status.yaml").read_text())["status"]
    assert status["blockers"][0]["nodeId"] == 2
    assert status["blockers"][0]["supportedMax"] == 21
    assert {c["type"]: c["reason"] for c in status["conditions"]}["Reconciling"] == "WaitingForNodes"
    assert levels(describe(refusing))["metadata.version"] == 21


@contextmanager
def applying(document: Path, until: str) -> Iterator[list[str]]:
    """`apply`, while it waits: the body runs once it prints `until`. It must exit with code 0 afterwards."""
    command = [*KAFKAFEATURES, "apply", "-f", str(document), "--timeout", "3m"]
    output: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (output and until in output[-1]):
            output.append(process.stderr.readline())
            assert output[-1], output
        yield output
        output += process.stderr.readlines()
        assert process.wait(60) == 0, output


def test_apply_waits_while_the_quorum_has_no_majority(cluster: Cluster, tmp_path: Path) -> None:
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 30}, bootstrapServers=cluster.bootstrap_servers
    )
    # The leader is one of the two: without followers it still accepts requests, until it notices and resigns.
    leader = cluster.nodes[cluster.leader()]
    other = next(node for node in cluster.controllers if node is not leader)
    for node in (leader, other):
        node.kill()
    with applying(document, "WaitingForQuorum"):
        for node in (leader, other):
            node.start(wait=False)
    assert levels(describe(cluster))["metadata.version"] == 30


def test_a_document_with_the_id_of_another_cluster_is_refused(refusing: Cluster, tmp_path: Path) -> None:
    document = write_document(
        tmp_path / "levels.yaml",
        {"metadata.version": 21},
        bootstrapServers=refusing.bootstrap_servers,
        clusterId="AAAAAAAAAAAAAAAAAAAAAA",
    )
    done = run("apply", "-f", str(document))
    assert done.returncode == 4
    assert f"connected to cluster {refusing.cluster_id}, expected AAAAAAAAAAAAAAAAAAAAAA" in done.stderr


class AtTheUpdate:
    """A recorder of requests that calls `act` once, just before the first real UpdateFeatures is sent."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self._done = act, False
        self.updates = 0

    def sent(self, address: Address, frame: bytes) -> None:
        key, validate_only = int.from_bytes(frame[4:6], "big"), frame[-2]
        if key == UPDATE_FEATURES and not validate_only:
            self.updates += 1
            if not self._done:
                self._done = True
                self._act()

    def received(self, address: Address, frame: bytes) -> None:
        """Not of interest."""


async def apply_until_done(document: Path, cluster: Cluster, recorder: AtTheUpdate) -> list[Reconciliation]:
    """The loop of `apply` in this process, so that the test can act at the moment of the request."""
    settings = ClusterSettings(
        bootstrap_servers=parse_addresses(cluster.bootstrap_servers, ""),
        bootstrap_controllers=parse_addresses(cluster.bootstrap_controllers, ""),
        request_timeout=4.0,
    )
    reconciliations: list[Reconciliation] = []
    with FileStore(read_file(document), document.with_suffix(".status.yaml")) as store:
        async with Client(settings, recorder=recorder, environment=SYSTEM) as client, asyncio.timeout(90):
            context = ReconcileContext(
                store=store,
                kafka=client,
                clock=lambda: datetime.now(UTC),
                sleep=asyncio.sleep,
                monotonic=SYSTEM.monotonic,
                ages=Ages(SYSTEM.monotonic),
            )
            while not reconciliations or not isinstance(reconciliations[-1].decision, Done):
                reconciliations.append(await reconcile(context, await context.store.read()))
                await asyncio.sleep(reconciliations[-1].requeue_after or 0.2)
    return reconciliations


def test_a_level_is_raised_once_though_the_leader_is_killed_between_request_and_answer(
    cluster: Cluster, tmp_path: Path
) -> None:
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 31}, bootstrapServers=cluster.bootstrap_servers
    )
    leader = cluster.nodes[cluster.leader()]
    standbys = [node for node in cluster.controllers if node is not leader]

    def kill_uncommitted() -> None:
        # The leader appends the record, which no other node can commit, and is killed before they run again.
        for node in standbys:
            node.freeze()
        threading.Timer(1.0, kill_leader).start()

    def kill_leader() -> None:
        leader.kill()
        for node in standbys:
            node.thaw()

    recorder = AtTheUpdate(kill_uncommitted)
    reconciliations = asyncio.run(apply_until_done(document, cluster, recorder))
    assert reconciliations[-1].status.change_count == 1
    assert reconciliations[-1].status.history[-1].result == "Applied"
    assert not reconciliations[-1].status.intents
    leader.start()
    assert levels(describe(cluster))["metadata.version"] == 31
    assert 1 <= recorder.updates <= 2  # two if the record was lost with the leader


def test_a_level_is_raised_once_though_the_leader_freezes_at_the_request(cluster: Cluster, tmp_path: Path) -> None:
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 33}, bootstrapServers=cluster.bootstrap_servers
    )
    leader = cluster.nodes[cluster.leader()]
    recorder = AtTheUpdate(leader.freeze)
    reconciliations = asyncio.run(apply_until_done(document, cluster, recorder))
    assert reconciliations[-1].status.change_count == 1
    new = cluster.leader(other_than=leader.id)
    leader.thaw()
    # When it thaws, the old leader still has the request. It must not change a level any more.
    wait_until(
        "the old leader follows the new one",
        lambda: active(cluster, servers=False, controllers=True) == new,
        step=SELDOM,
    )
    assert levels(describe(cluster))["metadata.version"] == 33


@pytest.mark.parametrize("named", ["brokers", "both"])
def test_the_status_is_not_in_sync_while_all_controllers_are_killed_and_again_after_their_start(
    cluster: Cluster, tmp_path: Path, named: str
) -> None:
    """The brokers run and answer, and all of them show the level that is desired."""
    reached = levels(describe(cluster))["metadata.version"]
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": reached}, bootstrapServers=cluster.bootstrap_servers
    )
    settings = ClusterSettings(
        bootstrap_servers=parse_addresses(cluster.bootstrap_servers, ""),
        bootstrap_controllers=parse_addresses(cluster.bootstrap_controllers if named == "both" else "", ""),
        request_timeout=4.0,
    )

    def ready() -> tuple[str, str]:
        return asyncio.run(reconciled_once(document, settings))

    assert ready() == ("True", "InSync")
    for node in cluster.controllers:
        node.kill()
    for _ in range(3):
        assert ready() == ("False", "WaitingForQuorum")
    for node in cluster.controllers:
        node.start(wait=False)
    wait_until("it is in sync again", lambda: ready() == ("True", "InSync"))


async def reconciled_once(document: Path, settings: ClusterSettings) -> tuple[str, str]:
    """Status and reason of Ready after one reconciliation."""
    with FileStore(read_file(document), document.with_suffix(".status.yaml")) as store:
        async with Client(settings, environment=SYSTEM) as client:
            context = ReconcileContext(
                store=store,
                kafka=client,
                clock=lambda: datetime.now(UTC),
                sleep=asyncio.sleep,
                monotonic=SYSTEM.monotonic,
                ages=Ages(SYSTEM.monotonic),
            )
            status = (await reconcile(context, await context.store.read())).status
    ready = status.condition(Condition.READY)
    assert ready is not None
    return ready.status, ready.reason


def test_apply_waits_while_an_old_broker_is_upgraded(refusing: Cluster, tmp_path: Path) -> None:
    """The last test of this cluster: afterwards no node of it is old."""
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 29}, bootstrapServers=refusing.bootstrap_servers
    )
    with applying(document, "WaitingForNodes: broker 2"):
        refusing.nodes[2].stop()
        refusing.nodes[2].start(NEWEST)
    assert levels(describe(refusing))["metadata.version"] == 29


def test_a_feature_is_raised_and_downgraded_by_flags_alone(cluster: Cluster) -> None:
    flags = ("--bootstrap-server", cluster.bootstrap_servers, "--feature")
    done = run("upgrade", "--yes", *flags, "group.version=1")
    assert (done.returncode, levels(describe(cluster)).get("group.version")) == (0, 1), done.stderr
    refused = run("downgrade", "--yes", *flags, "group.version=0")
    assert (refused.returncode, levels(describe(cluster)).get("group.version")) == (3, 1), refused.stderr
    assert "The downgrade may lose metadata" in refused.stderr
    words = [*IN_TERMINAL, "downgrade", *flags, "group.version=0"]
    declined = in_terminal(words, answers=[("Type group.version:1->0 to consent: ", "y\n")])
    assert (declined.code, levels(describe(cluster)).get("group.version")) == (4, 1), declined.text
    typed = in_terminal(words, answers=[("Type group.version:1->0 to consent: ", "group.version:1->0\n")])
    assert (typed.code, levels(describe(cluster)).get("group.version", 0)) == (0, 0), typed.text
