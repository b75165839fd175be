"""Folders with evidence about the clients of a small cluster, beside copies of its metadata log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from featurelog.clients.stage import ClientSettings
from featurelog.delta import load
from featurelog.run import Run, Settings, Summary
from featurelog.tables import NO_DOCUMENTS, TABLES, ClientJudging, Judging, tables_of
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.evidence import Scrape
from kafkafeatures.core.clients.senders import ClientOwner
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from tests.clients.exporters import answer_of
from tests.clients.request_lines import body, plain
from tests.clients.test_rejected import connection, refused
from tests.featurelog.inputs import SEGMENT, put
from tests.featurelog.tables.build import VOTERS, Item, batches, leader, level, registered_broker, registered_controller
from tests.kraftlog.build import NOW, no_op

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
BEGIN = NOW
END = NOW + 3 * DAY
"""End of the metadata log, and time of the last scrapes, in ms."""
WINDOW = 2 * DAY
ON_THE_HOUR = END - END % HOUR - 5 * HOUR
"""The begin of an hour within the window, in ms."""
TIMES = range(ON_THE_HOUR, ON_THE_HOUR + 2 * HOUR, 10 * MINUTE)
"""Six times in each of two hours."""
LOG = "kafka-request.log"
OLD = ("Produce", 2)
"""A version that Kafka 4.1 lacks."""
OLD_RANGES = ({"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": 21},)
"""What a broker of Kafka 3.9 supports."""
OWNERS = (ClientOwner("Payments", client_id="etl*"),)


def logs(root: Path, cluster: str = "orders", *, brokers: int = 2, until: int = END) -> None:
    """Copies of the metadata log on two voters: brokers of Kafka 3.9 that were registered at `BEGIN`."""
    items: list[Item] = [leader(VOTERS[0]), level("metadata.version", 21)]
    items += [registered_controller(node) for node in VOTERS]
    items += [registered_broker(number, 100 + number, supports=OLD_RANGES) for number in range(1, brokers + 1)]
    last = encode_batch([Record(len(items), until, no_op())], leader_epoch=1)
    data = b"".join([*batches(items), last])
    for node in VOTERS[:2]:
        put(root, cluster, str(node), SEGMENT, data, "orders-id")
        state = {"leaderEpoch": 1, "votedId": node, "votedDirectoryId": "x" * 22, "data_version": 1}
        put(root, cluster, str(node), "quorum-state", json.dumps(state).encode())


def counters(time: int, *, old: int = 0) -> dict[tuple[str, int], float]:
    """The counters of a broker at a time. old: requests of `OLD`."""
    alive = float((time - BEGIN) // 1000 + 1)
    counts = {("ApiVersions", 3): 1.0, ("Heartbeat", 4): alive, ("Fetch", 11): 2 * alive, ("OffsetCommit", 8): alive}
    return counts | ({OLD: float(old)} if old else {})


def scrape(broker: int, time: int, *, old: int = 0, start: int | None = None) -> bytes:
    """The answer of the exporter of a broker that started at `BEGIN`, or at `start`."""
    start = BEGIN + broker if start is None else start
    return answer_of(Scrape(broker, time, start, counters(time + broker, old=old), accepts_removed=True)).encode()


def place(root: Path, broker: int, name: str, content: bytes, *, cluster: str = "orders") -> Path:
    """Write one file with evidence; a name that ends with `.gz` is compressed."""
    path = root / cluster / str(broker) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def scrapes(root: Path, *, brokers: Iterable[int] = (1, 2), old: int = 0, cluster: str = "orders") -> None:
    """Three scrapes of each broker, which cover the window. old: requests of `OLD` in the last one of broker 1."""
    for broker in brokers:
        for time in (BEGIN + 2 * MINUTE, END - DAY, END - MINUTE):
            count = old if broker == 1 and time == END - MINUTE else 0
            place(root, broker, f"{time // 1000}.prom.gz", scrape(broker, time, old=count), cluster=cluster)


def everything(root: Path) -> None:
    """Evidence that gives every table about clients a row."""
    scrapes(root, old=5)
    place(root, 1, "kafka-request.log", lines([END - HOUR]))
    place(root, 1, "server.log", refused(connection(), time="2026-11-23 22:00:00,000").encode())


def lines(times: Iterable[int], **request: Any) -> bytes:
    """A request log with a request at each time."""
    return "".join(
        f"{plain(time, body(correlation=number, **request))}\n" for number, time in enumerate(times)
    ).encode()


def run(
    inputs: Path, output: Path | str, evidence: Iterable[Path | str], *, at: int = END + MINUTE, **more: Any
) -> Summary:
    """One run on one core, judged for Kafka 4.1."""
    judging = ClientJudging(("4.1",), client_targets(), WINDOW, OWNERS)
    clients = ClientSettings(tuple(map(str, evidence)), judging, at)
    settings = Settings((str(inputs),), str(output), clients=clients)
    derive = partial(tables_of, documents=NO_DOCUMENTS, judging=Judging(at, clients=judging))
    return Run(settings, derive, **more)()


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table, in the order of its key."""
    found: list[dict[str, Any]] = load(str(output))[0].read(table, TABLES[table].schema).to_pylist()
    return sorted(found, key=lambda row: [str(row[name]) for name in TABLES[table].key])


def verdict(output: Path, cluster: str = "orders") -> str:
    """The verdict on the clients of a cluster."""
    (row,) = (row for row in rows(output, "client_readiness") if row["cluster"] == cluster)
    return str(row["verdict"])


def requests(output: Path) -> Mapping[tuple[Any, ...], int]:
    """The number of requests in `client_api_usage` by broker, hour, API, version and client id."""
    sums: dict[tuple[Any, ...], int] = {}
    for row in rows(output, "client_api_usage"):
        key = row["broker_id"], f"{row['hour']:%d %H}", row["api"], row["version"], row["client_id"]
        sums[key] = sums.get(key, 0) + row["requests"]
    return sums


class Case:
    """Folders of metadata logs, of evidence that makes the cluster ready, and of the tables."""

    def __init__(self, folder: Path) -> None:
        self.logs, self.evidence, self.output = folder / "logs", folder / "evidence", folder / "out"
        logs(self.logs)
        scrapes(self.evidence)

    def run(self, **more: object) -> str:
        """Run, and return the verdict."""
        run(self.logs, self.output, [self.evidence], **more)  # type: ignore[arg-type]
        return verdict(self.output)

    @property
    def sequence(self) -> int:
        """The number of the last run that committed something."""
        return load(str(self.output))[0].sequence
