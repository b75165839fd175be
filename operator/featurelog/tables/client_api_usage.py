"""The table `client_api_usage`: which client sent which version of an API to a broker, hour by hour, by request logs.

Its rows are also what the pipeline keeps of request logs. So a row has all that a reduced log has (`client_files`), and
an hour of a broker becomes rows and is restored from them here. What it decides: no line of a log counts twice. Several
logs of one hour may be copies, or a log and a part of it; `merge_hours` decides which counts stay, as in `clients
check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from featurelog.tables.table import TIME, WHERE, Column, Row, Table, in_ms
from kafkafeatures.api.values import replace
from kafkafeatures.client_files.reduced import MAX_GROUPS, GroupCount, ReducedHour, RequestGroup, merge_hours

TABLE = Table(
    "client_api_usage",
    "A row for each hour, broker, sender, API and version in request logs. Logs may lack requests, so a missing row "
    "proves nothing. If logs are copies or parts of each other, each request counts once.",
    (
        "cluster", "broker_id", "hour", "api", "version", "listener", "principal", "client_id", "address",
        "software_name", "software_version", "is_forwarded", "evidence_digest",
    ),
    (
        WHERE[0],
        Column("broker_id", pa.int32(), "the broker that logged the requests"),
        Column("hour", TIME, "begin of the hour"),
        Column("api", pa.string(), "name of the API, such as `Produce`"),
        Column("version", pa.int32(), "version of the requests"),
        Column("listener", pa.string(), "listener of the broker; null: left out for lack of room, as the next five"),
        Column("principal", pa.string(), "authenticated user"),
        Column("client_id", pa.string(), "name that the client gives itself; empty: none"),
        Column("address", pa.string(), "address of the client, or what a reduced log has in its place"),
        Column("software_name", pa.string(), "library that the client names (KIP-511); `unknown`: it names none"),
        Column("software_version", pa.string(), "version of that library"),
        Column("is_forwarded", pa.bool_(), "a broker forwarded the requests: the address is that of the broker"),
        Column("requests", pa.int64(), "number of requests"),
        Column("first_ts", TIME, "the first request was not sent before: first line of this hour in the log"),
        Column("last_ts", TIME, "time of the last request"),
        Column("logs_all", pa.bool_(), "the log has all requests (DEBUG), not only those of deprecated versions"),
        Column("evidence_file", pa.string(), "file in the folder of the broker; the first if several have the hour"),
        Column("evidence_digest", pa.string(), "digest of the first line of the hour in that file"),
    ),
)  # fmt: skip
_ALL = frozenset({"DEBUG"})


@dataclass(frozen=True, slots=True)
class Section:
    """An hour of a broker in one log. file: name of the log. digest: of the first line of the hour."""

    hour: ReducedHour
    file: str
    digest: str


@dataclass(frozen=True, slots=True)
class SectionFile:
    """A section that is not in memory. first, last: times of its first and last request in ms. load: reads it."""

    first: int
    last: int
    load: Callable[[], Section]


def rows_of(cluster: str, sections: Iterable[SectionFile]) -> pa.Table:
    """The rows of one hour of a broker. Sections are read one after the other, and have at most `MAX_GROUPS` senders in
    all, so that memory is bounded.
    """
    merged: list[Section] = []
    room = MAX_GROUPS  # for the last section
    for file in sorted(sections, key=lambda section: (section.first, section.last)):
        section = file.load()
        hours = [section.hour] if not merged else list(merge_hours((merged[-1].hour, section.hour)))
        if merged and len(hours) == 1:
            section = merged.pop()
        elif merged:
            room = max(0, room - len(merged[-1].hour.counts))
        merged.append(replace(section, hour=_bounded(hours[-1], room)))
    return TABLE.of(row for section in merged for row in _rows(cluster, section))


def _bounded(hour: ReducedHour, room: int) -> ReducedHour:
    """The hour with the counts of at most `room` senders, those with the most requests. Of the others, the versions
    stay without a sender. If a version has two such counts, the larger one stays: both may be of the same requests.
    """
    if len(hour.counts) <= room:
        return hour
    with_sender = sorted(
        (count for count in hour.counts if count.group.client_id is not None), key=lambda c: -c.requests
    )
    without_sender = {count.group: count for count in hour.counts if count.group.client_id is None}
    left_out: dict[RequestGroup, GroupCount] = {}
    for count in with_sender[room:]:
        group = RequestGroup(count.group.api, count.group.version, is_forwarded=count.group.is_forwarded)
        total = left_out.get(group, GroupCount(group, 0, 0))
        left_out[group] = GroupCount(group, total.requests + count.requests, max(total.last, count.last))
    for group, count in left_out.items():
        without_sender[group] = max(count, without_sender.get(group, count), key=lambda total: total.requests)
    return replace(hour, counts=(*with_sender[:room], *without_sender.values()))


def _rows(cluster: str, section: Section) -> Iterator[Row]:
    hour = section.hour
    for count in hour.counts:
        group = count.group
        yield {
            "cluster": cluster, "broker_id": hour.broker, "hour": hour.hour, "api": group.api,
            "version": group.version, "listener": group.listener, "principal": group.principal,
            "client_id": group.client_id, "address": group.address, "software_name": group.software,
            "software_version": group.software_version, "is_forwarded": group.is_forwarded,
            "requests": count.requests, "first_ts": hour.first, "last_ts": count.last,
            "logs_all": bool(hour.levels & {"DEBUG", "TRACE"}), "evidence_file": section.file,
            "evidence_digest": section.digest,
        }  # fmt: skip


def sections_of(rows: pa.Table) -> list[SectionFile]:
    """The sections from which rows of one hour were made; those that were merged are one."""
    by_digest: dict[str, list[dict[str, Any]]] = {}
    for row in in_ms(rows).to_pylist():
        by_digest.setdefault(row["evidence_digest"], []).append(row)
    sections = [_section(digest, its_rows) for digest, its_rows in by_digest.items()]
    return [SectionFile(each.hour.first, each.hour.last, partial(_itself, each)) for each in sections]


def _section(digest: str, rows: Sequence[Mapping[str, Any]]) -> Section:
    first = rows[0]
    counts = tuple(GroupCount(_group(row), row["requests"], row["last_ts"]) for row in rows)
    last = max(count.last for count in counts)
    levels = _ALL if first["logs_all"] else frozenset[str]()
    hour = ReducedHour(first["broker_id"], first["hour"], first["first_ts"], last, levels, counts)
    return Section(hour, first["evidence_file"], digest)


def _group(row: Mapping[str, Any]) -> RequestGroup:
    return RequestGroup(
        row["api"], row["version"], row["listener"], row["principal"], row["client_id"], row["address"],
        row["software_name"], row["software_version"], row["is_forwarded"],
    )  # fmt: skip


def _itself(section: Section) -> Section:
    return section
