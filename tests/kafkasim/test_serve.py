"""`serve --bootstrap-server`: the page of a simulated cluster, while it changes and when it is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.serve.cluster import LOG_EVERY, ClusterOfResource, ClusterPage
from kafkafeatures.cli.serve.live import EVERY, Reader
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kraftlog.rolls import RollHistory
from tests.kafkafeatures.cli.test_cluster_page import bar, cells
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkafeatures.statuses import in_sync, resource
from tests.kafkafeatures.terminal import PROGRAM, environment, hears_ctrl_c
from tests.kafkafeatures.worlds import NOW
from tests.kafkasim.commands import shell
from tests.kafkasim.documents import PROGRAM as IN_SHELL
from tests.kafkasim.documents import document
from tests.kafkasim.test_process import heard, say, simulator


@pytest.fixture
def cluster() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with simulator("--release", "4.1", "--metadata-version", "25", "--old-broker", "3=4.0") as process:
        yield process, str(heard(process)["bootstrapServers"])


def test_the_page_follows_the_cluster_and_keeps_the_last_picture_once_it_is_gone(
    cluster: tuple[subprocess.Popen[str], str],
) -> None:
    process, servers = cluster
    seconds = 0.0
    reader = Reader(Environment(clock=lambda: NOW + timedelta(seconds=seconds), monotonic=lambda: seconds))
    page = ClusterPage(ClusterSettings(parse_addresses(servers, ""), ()), reader, f"--bootstrap-server {servers}")
    page.start()
    assert "bad" in {kind for kind, _ in cells(page("") or "", "metadata.version")}
    assert page("other") is None
    assert say(process, "upgrade broker 3 4.1")["done"] is True
    assert bar(page("") or "")[0] == "bad"  # not read again yet
    seconds += EVERY
    assert bar(page("") or "") == ("good", "metadata.version 4.0-IV3; can be raised to 4.1-IV1")
    process.kill()
    process.wait()
    seconds += EVERY
    gone = page("") or ""
    assert "Not read since 2026-01-02 03:04:15 UTC" in Page(gone).text
    assert "connection refused" in gone
    assert bar(gone)[0] == "good"
    reader.close()


def test_the_page_stays_live_while_the_node_of_the_typed_address_is_restarted(
    cluster: tuple[subprocess.Popen[str], str],
) -> None:
    process, servers = cluster
    first = servers.split(",", maxsplit=1)[0]
    seconds = 0.0
    reader = Reader(Environment(clock=lambda: NOW + timedelta(seconds=seconds), monotonic=lambda: seconds))
    page = ClusterPage(ClusterSettings(parse_addresses(first, ""), ()), reader, f"--bootstrap-server {first}")
    page.start()
    assert say(process, "upgrade broker 3 4.1")["done"] is True
    assert say(process, "stop broker 1")["done"] is True
    seconds += EVERY
    away = Page(page("") or "").text
    assert "Live, read-only. Read at 2026-01-02 03:04:10 UTC" in away
    assert f"broker 1 {first}: " in away
    assert "1 node is not live: broker 1" in away
    reader.close()


def resource_of(cluster_id: str) -> KubeResource:
    return resource({**in_sync(), "clusterId": cluster_id})


def test_the_page_of_a_resource_has_the_nodes_and_the_restarts_of_its_cluster(
    cluster: tuple[subprocess.Popen[str], str],
) -> None:
    process, servers = cluster
    seconds = 0.0
    reader = Reader(Environment(monotonic=lambda: seconds))
    settings = ClusterSettings(parse_addresses(servers, ""), ())
    id_ = json.loads(shell(f"{IN_SHELL} describe --bootstrap-server {servers} -o json").stdout)["clusterId"]
    assert say(process, "upgrade broker 3 4.1")["done"] is True
    readings = ClusterOfResource(settings, reader)
    history = readings.history(resource_of(id_))
    assert isinstance(history, RollHistory), history
    assert [absence.node_id for absence in history.absences] == [3]
    nodes = str(readings.nodes(resource_of(id_), NOW))
    assert "Restarts are those of" not in nodes
    seconds += LOG_EVERY
    assert readings.history(resource_of("another-cluster")) == history  # the last one that was read
    nodes = str(readings.nodes(resource_of(id_), NOW))
    assert "Restarts are those of" in nodes
    assert "The metadata log: " in nodes
    assert {kind for kind, _ in cells(nodes, "metadata.version")} == {"good"}
    assert "read at " in nodes
    other = ClusterOfResource(settings, reader)
    assert "expected another-cluster" in str(other.history(resource_of("another-cluster")))
    nodes = str(other.nodes(resource_of("another-cluster"), NOW))
    assert f"Connected to cluster {id_}, expected another-cluster" in nodes
    assert "metadata.version" not in nodes
    process.kill()
    process.wait()
    seconds += 2 * LOG_EVERY
    assert readings.history(resource_of(id_)) == history  # the last picture
    assert "Not read since" in str(readings.nodes(resource_of(id_), NOW))
    reader.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_one_address_and_ends_with_0_at_ctrl_c_and_sigterm(
    cluster: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    command = (*PROGRAM, "serve", "--bootstrap-server", cluster[1])
    with subprocess.Popen(
        command, env=environment(), stdout=-1, stderr=-1, text=True, preexec_fn=hears_ctrl_c,  # noqa: PLW1509
    ) as serving:  # fmt: skip
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert "Kafka cluster" in answer.read().decode()
        serving.send_signal(number)
        out, err = serving.communicate(timeout=30)
    assert (serving.returncode, out) == (0, "")
    assert err == "read-only; whoever has this address can read the pages; Ctrl-C ends it\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--bootstrap-server 127.0.0.1:1", 5, "kafkafeatures: 127.0.0.1:1: connection refused"),
        ("--bootstrap-server h:1 -A", 64, "--all-namespaces selects resources on Kubernetes; give NAME as well"),
        ("--bootstrap-server h:1 --as bob", 64, "--as selects resources on Kubernetes; give NAME as well"),
        ("orders -A", 64, "NAME selects one resource; leave out --all-namespaces"),
        ("--bootstrap-server h", 64, "invalid address 'h'"),
        ("--kubeconfig /nowhere", 64, "/nowhere"),
    ],
)
def test_serve_that_cannot_read_ends_with_one_line_before_it_serves(words: str, code: int, message: str) -> None:
    done = shell(f"{IN_SHELL} serve {words}")
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_without_kubernetes_is_told_how_to_serve_a_cluster(tmp_path: Path) -> None:
    done = shell(f"HOME={tmp_path} KUBECONFIG= {IN_SHELL} serve")
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert "no kubeconfig: " in done.stderr
    assert done.stderr.endswith("; to serve a Kafka cluster, use --bootstrap-server\n")


@pytest.mark.parametrize("flags", ["-f levels.yaml", "--profile gone"])
def test_serve_takes_the_cluster_of_a_document_or_a_profile(tmp_path: Path, flags: str) -> None:
    document(tmp_path, {"bootstrapServers": "127.0.0.1:1"}, {})
    (tmp_path / "kafkafeatures").mkdir()
    profile = '[profiles.gone]\nbootstrap-server = "127.0.0.1:1"\n'
    (tmp_path / "kafkafeatures" / "config.toml").write_text(profile)
    done = shell(f"XDG_CONFIG_HOME={tmp_path} {IN_SHELL} serve {flags}", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (5, 1)
    assert "127.0.0.1:1: connection refused" in done.stderr
