"""`apply` is killed with SIGKILL at named points and random instants, and run again: no change is made twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kafkafeatures.core.engine.settling import ON_ITS_WAY
from kafkafeatures.core.facts.readings import EarlierMoves, Failure
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import KafkaError
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.kafka.log.level_history import moves_between
from tests.e2e.kafka.cli import KAFKAFEATURES, run, write_document
from tests.e2e.kafka.cut import Link, install_iptables
from tests.e2e.kafka.wire import feature_records, meddle, send
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST

INSTANTS = 60 if os.environ.get("SOAK") else 8
SCRIPT, MOVED = (Path(__file__).with_name(f"apply_{how}.py") for how in ("killed", "moved"))
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("killed"), NEWEST, release_version="4.2", controllers=1, brokers=1) as running:
        meddle(running, "share.version", 0)
        meddle(running, "streams.version", 0)
        yield running


BOTH = ("share.version", "streams.version")


def document_with(folder: Path, cluster: Cluster, *features: str) -> Path:
    folder.mkdir()
    wanted: dict[str, int | str] = dict.fromkeys(features, 1)
    return write_document(folder / "levels.yaml", wanted, bootstrapServers=cluster.bootstrap_servers)


def ends_well(cluster: Cluster, document: Path, before: int, *features: str) -> None:
    """Assert that the state file is whole, and that one more run finalizes all levels, each of them written once."""
    state = document.with_suffix(".status.yaml")
    if state.exists():
        assert yaml.safe_load(state.read_text())["kind"] == "KafkaFeatures"
    command = [sys.executable, str(SCRIPT), str(document), "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    status = yaml.safe_load(state.read_text())["status"]
    assert "intents" not in status
    assert status["progress"] == f"{len(features)}/{len(features)} levels"
    assert feature_records(cluster) == before + len(features)
    for feature in features:
        meddle(cluster, feature, 0)


def test_an_apply_killed_at_every_named_point_raises_a_level_once(cluster: Cluster, tmp_path: Path) -> None:
    points = []
    for number in range(100):
        document, before = document_with(tmp_path / str(number), cluster, "share.version"), feature_records(cluster)
        command = [sys.executable, str(SCRIPT), str(document), str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        points.append(done.stdout.splitlines()[-1])
        ends_well(cluster, document, before, "share.version")
    assert {name.split(" ")[1] for name in points} == {"read", "validate", "send", "write_status"}
    assert points.count("before send") == points.count("after send") == 1
    meddle(cluster, "share.version", 0)


def test_an_apply_killed_at_random_instants_raises_a_level_once(cluster: Cluster, tmp_path: Path) -> None:
    """The instants are between the start of the process and a little after the end of a whole run."""
    chance = random.Random(4)
    for number in range(INSTANTS):
        document, before = document_with(tmp_path / str(number), cluster, *BOTH), feature_records(cluster)
        process = subprocess.Popen(
            [*KAFKAFEATURES, "apply", "-f", str(document)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(chance.uniform(0.15, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ends_well(cluster, document, before, *BOTH)


def test_a_request_that_the_network_held_back_never_arrives_and_a_killed_apply_is_waited_for(
    cluster: Cluster, tmp_path: Path, cut: list[Link]
) -> None:
    """A kernel would continue to send it, even for a process that gave up or was killed. Then the level would change
    after its status said that the change was not made. Here one process is killed, and another one gives up.
    """
    before = feature_records(cluster)
    killed = document_with(tmp_path / "killed", cluster, "share.version")
    given_up = document_with(tmp_path / "given-up", cluster, "streams.version")
    cut_off(cut, killed, "killed")
    assert cut[0].bytes_kept == 0
    began = time.monotonic()
    successor = subprocess.Popen([*KAFKAFEATURES, "apply", "-f", str(killed)], stdout=subprocess.DEVNULL)
    cut_off(cut, given_up)
    assert cut[1].bytes_kept == 0
    while cut:
        cut.pop().heal()
    assert successor.wait(120) == 0
    waited = time.monotonic() - began
    # Unverified: while the successor waited, the other apply moved its own level, so the log no longer proves that
    # nothing of the killed one arrived.
    for document, first in (killed, "Unverified"), (given_up, "NotApplied"):
        status = yaml.safe_load(document.with_suffix(".status.yaml").read_text())["status"]
        assert [one["result"] for one in status["history"]] == [first, "Applied"]
    print(f"settled {waited:.1f} s after it was killed")
    assert waited > ON_ITS_WAY.total_seconds()
    assert feature_records(cluster) == before + 2
    for feature in BOTH:
        meddle(cluster, feature, 0)


@pytest.fixture
def cut() -> Iterator[list[Link]]:
    """The links that a test has cut. They are healed after the test."""
    install_iptables()
    links: list[Link] = []
    yield links
    for link in links:
        link.heal()


def cut_off(cut: list[Link], document: Path, *how: str) -> None:
    """Run `apply` until it ends. Its first change is lost, because its connection is cut, and remains cut."""
    command = [sys.executable, "-m", "tests.e2e.kafka.apply_cut", str(document), *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, f"nothing was sent: {done.stderr}"
    client, node = map(int, done.stdout.splitlines()[0].split())
    cut.append(Link(client, node))
    assert done.returncode == (-signal.SIGKILL if how else 0), done.stderr


def test_a_level_that_moves_before_the_request_is_not_downgraded_under_the_consent_of_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    meddle(cluster, "transaction.version", 0)
    meddle(cluster, "transaction.version", 1)
    folder = tmp_path / "moved"
    folder.mkdir()
    document = write_document(
        folder / "levels.yaml", {"transaction.version": 0}, bootstrapServers=cluster.bootstrap_servers
    )
    content = json.loads(document.read_text())
    content["spec"]["consents"] = ["transaction.version:1->0"]
    document.write_text(json.dumps(content))
    before = feature_records(cluster)
    script = [sys.executable, str(MOVED), str(document), str(cluster.nodes[cluster.leader()].port)]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 4, done.stderr
    status = yaml.safe_load(document.with_suffix(".status.yaml").read_text())["status"]
    assert [one["result"] for one in status["history"]] == ["NotSent"]
    assert re.search("transaction.version (is at 2 by now|may not be at 1 any more)", status["history"][0]["message"])
    assert status["spentConsents"] == [
        "transaction.version:1->0"
    ]  # used up with the plan, because another client changed the level
    assert feature_records(cluster) == before + 1  # the one of the other client


def test_a_leader_reports_the_level_changes_since_an_offset_and_whether_it_had_that_offset(cluster: Cluster) -> None:
    """A status has the offset. If the log is read from a later offset, the leader is asked for the changes between."""

    async def earlier_changes() -> tuple[EarlierMoves | KafkaError, ...]:
        settings = ClusterSettings(parse_addresses(cluster.bootstrap_servers, ""), ())
        async with Client(settings, environment=SYSTEM) as client:
            first = (await client.read()).log
            assert not isinstance(first, Failure)
            offset, epoch = first.image.offset, first.image.epoch
            for level in (1, 0):
                await send(cluster.nodes[cluster.leader()], "share.version", level)
            second = (await client.read()).log
            assert not isinstance(second, Failure)
            source = client.followed(cluster.cluster_id)
            assert source is not None
            source.until = second.image.offset
            here = await moves_between(source, offset, epoch, monotonic=time.monotonic)
            source.until += 20_000
            beyond = await moves_between(source, second.image.offset + 10_000, epoch, monotonic=time.monotonic)
            return here, beyond

    here, beyond = asyncio.run(earlier_changes())
    assert isinstance(here, EarlierMoves)
    assert [level for _, level in here.moves["share.version"]] == [1, 0]
    assert not here.restored
    assert beyond == EarlierMoves(restored=True)


def test_a_second_apply_at_the_same_time_names_the_process_that_holds_the_state(
    cluster: Cluster, tmp_path: Path
) -> None:
    document = document_with(tmp_path / "two", cluster, *BOTH)
    first = subprocess.Popen([sys.executable, str(SCRIPT), str(document), "1000"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "before read\n"  # the state is locked by now
    first.send_signal(signal.SIGSTOP)
    second = run("apply", "-f", str(document))
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 4
    assert f"is in use by process {first.pid}" in second.stderr
    first.stdout.read()
    first.stdout.close()
    assert first.wait() == 0
