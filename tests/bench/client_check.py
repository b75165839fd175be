"""`clients check --prometheus` on a real Prometheus that has scraped the brokers of one cluster for the whole window.

The history is written as blocks by promtool, broker by broker, as nobody can scrape for 35 days here. Each scrape has
the metrics that the check reads, under the names of Strimzi's rules, and no other metric of a broker.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.words import format_time
from tests.clients.test_command import registered
from tests.e2e.clients.prometheus import backfill, running

END = 1_795_000_000
"""Time of the last scrape, in seconds."""
DAY = 86_400
SCRAPE_EVERY = 60
VERSIONS = 2
"""Versions of each API that have a counter."""
PURGATORIES = ("ElectLeader", "Produce", "Fetch", "Heartbeat", "Rebalance", "DeleteRecords")


@dataclass(frozen=True)
class Size:
    """Brokers, days of the window, and runs of the command."""

    brokers: int
    days: int
    rounds: int


FULL = Size(30, 35, 5)
QUICK = Size(2, 1, 1)


def run(size: Size, installed: list[str]) -> None:
    """Measure, and print the figures. `installed`: the command line, without any extra."""
    with tempfile.TemporaryDirectory(prefix="bench-prometheus-") as name:
        folder = Path(name) / "data"
        for broker in range(size.brokers):
            backfill(folder, _history(broker, size.days))
        with running(folder) as url:
            began = END - (size.days + 1) * DAY
            log = registered(Path(name) / "log", *range(size.brokers), since=began * 1000, until=END * 1000)
            window = ["--window", f"{size.days}d", "--at", format_time(END * 1000)]
            evidence = ["--prometheus", url, "--log", str(log)]
            command = [*installed, "clients", "check", "--release", "4.1", *evidence, *window, "-o", "json"]
            seconds = [_timed(command, size.brokers) for _ in range(size.rounds)]
    figures = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}-{max(seconds):.2f})"
    print(f"clients check --prometheus, {size.brokers} brokers x {size.days} days, whole process: {figures}")


def _timed(command: list[str], brokers: int) -> float:
    """Seconds of one run, which has to find every broker covered."""
    began = time.perf_counter()
    process = subprocess.run(command, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    result = json.loads(process.stdout)
    assert (result["verdict"], len(result["brokers"])) == ("Ready", brokers), process.stderr or result["brokers"][:1]
    return seconds


def _history(broker: int, days: int) -> Iterator[str]:
    """Lines of OpenMetrics: the scrapes of a broker since a day before the window, the oldest first."""
    chance = random.Random(broker)
    target = f'instance="10.0.0.{broker}:9404",job="kafka",namespace="kafka",broker_id="{broker}"}}'
    counters = [
        (f'kafka_network_requestmetrics_requests_total{{request="{api}",version="{version}",{target} ',
         chance.choice((0, 0, 1, 1, 3, 17)))
        for api, versions in sorted(client_targets().releases["4.1"].items())
        for version in range(versions.min, versions.max + 1)[-VERSIONS:]
    ]  # fmt: skip
    # It was used before the window, so the check has to find out when, which it would not ask for accepted versions.
    counters.append((f'kafka_network_requestmetrics_requests_total{{request="Produce",version="2",{target} ', 0))
    gauges = [
        f'kafka_server_delayedoperationpurgatory_numdelayedoperations{{delayedoperation="{name}",{target} 0'
        for name in PURGATORIES
    ]
    begin = END - (days + 1) * DAY
    gauges.append(f"java_lang_runtime_starttime{{{target} {(begin - 10) * 1000}")
    gauges.append(f"jmx_scrape_error{{{target} 0")
    gauges.append(f"scrape_samples_scraped{{{target} {len(counters) + len(gauges)}")
    for number, second in enumerate(range(begin, END + 1, SCRAPE_EVERY)):
        at = f" {second - broker}.{broker:03}\n"
        yield from [f"{prefix}{1000 + number * rate}{at}" for prefix, rate in counters]
        yield from [f"{gauge}{at}" for gauge in gauges]
