"""Lines of request logs for tests, as Kafka 3.9 writes them, and a naive counter of them to compare with."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

AT = 1_795_836_166_145
"""2026-11-28T03:22:46.145Z, in ms: so far within an hour that a few lines stay in it."""


def body(
    api: str = "PRODUCE",
    version: int = 2,
    client: str | None = "etl",
    *,
    correlation: int = 7,
    address: str = "10.1.2.3",
    port: int = 40_000,
    principal: str = "User:etl",
    software: tuple[str, str] = ("unknown", "unknown"),
    forwarded: bool = False,
    request: Any = None,
    more: Mapping[str, Any] | None = None,
) -> str:
    """The JSON that a broker logs of a request. `more`: further fields."""
    header = {"requestApiKey": 0, "requestApiVersion": version, "correlationId": correlation, "clientId": client,
              "requestApiKeyName": api}  # fmt: skip
    times = ("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs",
             "responseQueueTimeMs", "sendTimeMs")  # fmt: skip
    document = {
        "isForwarded": forwarded, "requestHeader": header, "request": {"acks": 1} if request is None else request,
        "response": {"throttleTimeMs": 0}, "connection": f"127.0.0.1:9092-{address}:{port}-3",
        **dict.fromkeys(times, correlation % 97 / 8), "securityProtocol": "PLAINTEXT", "principal": principal,
        "listener": "PLAINTEXT", "clientInformation": {"softwareName": software[0], "softwareVersion": software[1]},
        **(more or {}),
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def stamp(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%d %H:%M:%S},{at % 1000:03}"


def plain(at: int, text: str, level: str = "DEBUG") -> str:
    """A line in Kafka's own layout."""
    return f"[{stamp(at)}] {level} Completed request:{text} (kafka.request.logger)"


def strimzi(at: int, text: str, level: str = "DEBUG") -> str:
    return f"{stamp(at)} {level} Completed request:{text} (kafka.request.logger) [data-plane-kafka-request-handler-3]"


def in_json(at: int, text: str, level: str = "DEBUG") -> str:
    return json.dumps({"timeMillis": at, "level": level, "loggerName": "kafka.request.logger",
                       "message": f"Completed request:{text}"})  # fmt: skip


LAYOUTS = (plain, strimzi, in_json)

_NAIVE = re.compile(
    r"\[?(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3})\]? (DEBUG|INFO) Completed request:(\{.*\}) "
    r"\(kafka\.request\.logger\)(?: \[[^]]*\])?"
)


def naive(lines: Iterable[bytes]) -> Counter[tuple[Any, ...]]:
    """The number of requests by hour, API, version and sender, counted line by line with the standard library."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for line in lines:
        match = _NAIVE.fullmatch(line.decode(errors="surrogateescape"))
        if match is None:
            continue
        try:
            document = json.loads(match[5])
        except ValueError:
            continue
        header, software = document["requestHeader"], document["clientInformation"]
        api = "".join(word.capitalize() for word in header["requestApiKeyName"].split("_"))
        counts[
            f"{match[1]}T{match[2][:2]}", api, header["requestApiVersion"], document["listener"], document["principal"],
            header["clientId"] or "", document["connection"].split("-")[1].rpartition(":")[0],
            software["softwareName"], software["softwareVersion"], document["isForwarded"],
        ] += 1  # fmt: skip
    return counts
