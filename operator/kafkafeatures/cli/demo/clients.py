"""`kafkafeatures demo --story clients`: shows by the counters of brokers whether an upgrade would break old clients.

The cluster is simulated and the scrapes are generated: three brokers of Kafka 3.9 that have run for 40 days.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from kafkafeatures.cli.demo.stage import Demonstration
from kafkafeatures.cli.demo.text import tell, title
from kafkafeatures.cli.shell.exit_codes import Exit

Counters = Mapping[tuple[str, int], int]
"""Numbers of requests by API and version, since the broker started."""

_BROKERS = (1, 2, 3)
_DAY = 86_400
_RUN_FOR = 40 * _DAY
"""Seconds that the brokers have run for."""
_WINDOW = 35 * _DAY
"""Seconds without a request of an old version, after which `clients check` says that no old client is left."""
_RELEASE = "4.1"
_NEW_CLIENTS: Counters = {
    ("ApiVersions", 3): 52_000,
    ("Fetch", 17): 9_310_000,
    ("Metadata", 12): 61_000,
    ("Produce", 11): 870_000,
}
_OLD_CLIENT: Counters = {("Fetch", 3): 410_000, ("Produce", 2): 22_400}
"""Requests of a client of 2017."""
_SCRAPE = """\
jmx_exporter_build_info{{name="jmx_prometheus_javaagent",version="1.0.1"}} 1
jmx_scrape_error 0
process_start_time_seconds {start}
{counters}
kafka_server_delayedoperationpurgatory_purgatorysize{{delayedOperation="ElectLeader"}} 0
"""
_COUNTER = 'kafka_network_requestmetrics_requests_total{{request="{}",version="{}"}} {}'


def tell_of_clients(stage: Demonstration, servers: str) -> None:
    """Play the story. Raises CommandFailed if a command answers otherwise than the story says."""
    now = int(time.time())
    title(f"Which clients break with Kafka {_RELEASE}?")
    tell(
        "It runs Kafka 3.9, and the scrapes of its brokers are GENERATED: they have run for 40 days. Each broker "
        "counts the requests of every API version, and a metrics exporter shows the counters. One answer of it:"
    )
    for broker in _BROKERS:
        _scrape(
            stage, broker, now - _DAY, now - _RUN_FOR, {**_NEW_CLIENTS, **_OLD_CLIENT} if broker == 2 else _NEW_CLIENTS
        )
        _scrape(
            stage, broker, now, now - _RUN_FOR, _later({**_NEW_CLIENTS, **_OLD_CLIENT} if broker == 2 else _NEW_CLIENTS)
        )
    name = f"evidence/2/{now}.prom"
    stage.show(f"$ cat {name}\n{(stage.folder / name).read_text()}")

    check = ("clients", "check", "--release", _RELEASE, "--evidence", "evidence", "--bootstrap-server", servers)
    tell("May the cluster be upgraded?")
    stage.run(check, code=Exit.BLOCKED, shows=("Blocked:", "Produce v2", "Fetch v3"))

    tell("Its team has upgraded that client. 35 days later the counters of old versions have not grown:")
    later = (
        now + _WINDOW + _DAY
    )  # a day more: then the last scrape with requests of the old client is out of the window
    for broker in _BROKERS:
        counters = {**_later(_later(_NEW_CLIENTS)), **(_later(_OLD_CLIENT) if broker == 2 else {})}
        _scrape(stage, broker, later, now - _RUN_FOR, counters)
    at = datetime.fromtimestamp(later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stage.run((*check, "--at", at), code=Exit.DONE, shows=("Ready:", "3 of 3 brokers covered"))

    tell("A broker whose scrapes are missing proves nothing, whatever the others show:")
    for path in (stage.folder / "evidence/3").iterdir():
        path.unlink()
    stage.run((*check, "--at", at), code=Exit.UNREACHABLE, shows=("Unknown:", "broker 3", "no scrape of it"))


def _scrape(stage: Demonstration, broker: int, at: int, start: int, counters: Counters) -> None:
    """Write a scrape of a broker, made `at` this time. start: when the process of the broker started."""
    (stage.folder / f"evidence/{broker}").mkdir(parents=True, exist_ok=True)
    lines = "\n".join(_COUNTER.format(*key, count) for key, count in counters.items())
    stage.write(f"evidence/{broker}/{at}.prom", _SCRAPE.format(start=start + broker, counters=lines))


def _later(counters: Counters) -> Counters:
    """The counters after a tenth more requests."""
    return {key: count * 11 // 10 for key, count in counters.items()}
