"""A real Prometheus: with a history of 35 days, and scraping a real exporter on a real broker that dies."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MINUTE, Scrape, evidence_of
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.words import format_time
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.prometheus.api import PrometheusApi
from kafkafeatures.prometheus.evidence import PrometheusEvidence, read_evidence
from kafkafeatures.prometheus.http import HttpTransport, parse_url
from kafkafeatures.prometheus.operator_source import PrometheusSource
from kafkafeatures.prometheus.settings import PrometheusSettings
from tests.clients import fake_prometheus
from tests.clients.fake_prometheus import Exposed, FakePrometheus, ScrapedTarget, target_of
from tests.clients.histories import DAY, HOUR, History, Process
from tests.clients.test_command import registered
from tests.clients.test_prometheus_evidence import labelled
from tests.e2e.clients.conftest import one_node
from tests.e2e.clients.old_clients import CLIENTS
from tests.e2e.clients.prometheus import backfill, exporter, line, running, scrape
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.process import free_port, wait_until
from tests.e2e.rig.releases import OLD

MATTERS = client_targets().matters("4.1")
NOW = 29_900_040
"""A full hour, in minutes."""
STARTED = NOW - 40 * DAY
ROLLED = (
    Process(STARTED, NOW - 9 * DAY),
    Process(NOW - 9 * DAY + 2, NOW - 9 * DAY + 31),
    Process(NOW - 9 * DAY + 33, NOW),
)
QUIET = History(
    {1: ROLLED, 2: (Process(STARTED, NOW),), 3: (Process(STARTED, NOW, uses=(NOW - 36 * DAY,)),)},
)
USED = History({1: (Process(STARTED, NOW, uses=(NOW - 3 * DAY - 77,)),)})
WINDOW = 35 * DAY * MINUTE


def scraped(history: History, namespace: str) -> list[ScrapedTarget]:
    """Targets that are scraped for six minutes of each hour, and for an hour around each start and end of a process."""

    def seldom(target: ScrapedTarget, edges: Sequence[int]) -> ScrapedTarget:
        def expose(minute: int) -> Exposed | None:
            is_time = -minute % HOUR < 6 or any(abs(minute - edge) < HOUR for edge in edges)
            return target.expose(minute) if is_time else None

        return replace(target, expose=expose)

    return [
        labelled(
            seldom(target_of(history, broker), [edge for each in processes for edge in (each.start, each.end)]),
            namespace=namespace, instance=f"{namespace}-{broker}:9404",
        )
        for broker, processes in history.brokers.items()
    ]  # fmt: skip


TARGETS = [*scraped(QUIET, "kafka"), *scraped(USED, "other")]


def lines(targets: Sequence[ScrapedTarget]) -> Iterator[str]:
    for target in targets:
        for minute in range(NOW - 36 * DAY, NOW + 1):
            for name, labels, value in target.scrape(minute) or ():
                yield line(name, {**target.labels, **labels}, value, minute * MINUTE + target.offset)


def evidence(url: str, begin: int, end: int, selector: str = "") -> PrometheusEvidence:
    with closing(HttpTransport(parse_url(url), {}, None)) as send:
        return read_evidence(PrometheusApi(send), selector, None, EvidenceWindow(begin, end), MATTERS)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus that has the history of two clusters."""
    folder = tmp_path_factory.mktemp("prometheus") / "data"
    backfill(folder, lines(TARGETS))
    with running(folder) as url:
        yield url


def test_a_real_prometheus_answers_as_the_one_that_histories_are_tried_on(history: str) -> None:
    end = NOW * MINUTE
    for namespace in ("kafka", "other"):
        selector = f'namespace="{namespace}"'
        real = evidence(history, end - WINDOW, end, selector)
        assert real == fake_prometheus.evidence_of(FakePrometheus(TARGETS), at=NOW, selector=selector)
        assert real.problems == ()


def test_a_history_of_35_days_is_ready_and_that_of_another_cluster_is_blocked(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*words: str) -> int:
        command = ["clients", "check", "--release", "4.1", "--prometheus", history, "--at", format_time(NOW * MINUTE)]
        return main([*command, *words])

    log = registered(
        tmp_path / "log", 1, 2, 3,
        since=STARTED * MINUTE, until=NOW * MINUTE, restarts={1: ROLLED[-1].start * MINUTE},
    )  # fmt: skip
    brokers = ["--log", str(log)]
    assert check("--selector", 'namespace="kafka"', *brokers) == Exit.DONE, capsys.readouterr()
    assert check("--selector", 'namespace="other"', *brokers) == Exit.BLOCKED
    assert check(*brokers) == Exit.USAGE
    assert "several clusters: namespace is kafka, other; use --selector" in capsys.readouterr().err


def test_the_operator_reads_the_same_from_an_address_that_its_policy_permits(history: str) -> None:
    window = EvidenceWindow(NOW * MINUTE - WINDOW, NOW * MINUTE)
    for namespace in ("kafka", "other"):
        selector = f'namespace="{namespace}"'
        settings = PrometheusSettings(history, selector, policy=AddressPolicy())
        answer = PrometheusSource(settings, SYSTEM.monotonic).read(window, MATTERS)
        assert answer.scrapes == evidence(history, window.begin, window.end, selector).scrapes
        assert answer.peer == ("127.0.0.1", parse_url(history).port)
    both = PrometheusSource(PrometheusSettings(history), SYSTEM.monotonic).read(window, MATTERS)
    assert isinstance(both.scrapes, Failure)
    assert both.scrapes.message == "the selector matches brokers of several clusters"


def by_exporter(port: int) -> Mapping[tuple[str, int], float]:
    return ExpositionReader().read(io.BytesIO(scrape(port))).counters


def now() -> int:
    return round(time.time() * 1000)


def wait_for_scrapes(url: str, since: int) -> tuple[Scrape, ...]:
    """The scrapes of the broker, once there are some of the process that runs since then."""
    scrapes: list[Scrape] = []

    def are_there() -> bool:
        scrapes[:] = evidence(url, now() - HOUR * MINUTE, now()).scrapes
        return any(scrape.start >= since for scrape in scrapes)

    wait_until("the broker is scraped", are_there, step=1)
    return tuple(scrapes)


def test_an_old_client_of_a_real_broker_is_found_after_the_broker_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    job = {
        "job_name": "kafka",
        "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"broker_id": "1"}}],
    }
    cluster: Cluster = one_node(tmp_path / "c", OLD)
    cluster.jvm = [exporter(tmp_path, port)]
    with running(tmp_path / "data", [job]) as url, cluster:
        hold_topic(cluster, "old", {0: [1]})
        client = CLIENTS["librdkafka-1.0.0"]().start(cluster.bootstrap_servers, "old")
        text, _ = client.communicate(timeout=60)
        assert client.returncode == 0, text
        used = by_exporter(port)
        assert used["ListOffsets", 0] > 0
        wait_until(
            "the use is scraped", lambda: ("ListOffsets", 0) in latest(wait_for_scrapes(url, 0)).counters, step=1
        )

        command = ["clients", "check", "--release", "4.1", "--window", "1h", "-o", "json", "--prometheus", url]
        assert main([*command, "--bootstrap-server", cluster.bootstrap_servers]) == Exit.BLOCKED
        document = json.loads(capsys.readouterr().out)
        assert ("ListOffsets", 0, [1]) in [(use["api"], use["version"], use["brokers"]) for use in document["uses"]]
        assert [gap["cause"] for gap in document["brokers"][0]["gaps"]] == ["BeforeStart"]

        began = latest(wait_for_scrapes(url, 0)).start
        wait_until("it ran for long enough to be seen", lambda: now() - began > 40_000)
        node = cluster.brokers[0]
        node.kill()
        killed = now()
        node.start()
        processes = evidence_of(wait_for_scrapes(url, killed))[1].processes
        assert len(processes) == 2
        first, second = processes
        assert first.last <= killed <= second.start
        assert set(first.scrapes[-1].counters) >= set(used)
        assert first.accepts_removed
        assert ("ListOffsets", 0) not in second.scrapes[-1].counters
        assert set(second.scrapes[-1].counters) <= set(by_exporter(port))
        assert main([*command, "--bootstrap-server", cluster.bootstrap_servers]) == Exit.BLOCKED


def latest(scrapes: Sequence[Scrape]) -> Scrape:
    return max(scrapes, key=lambda scrape: scrape.time)
