"""What the metadata log tells of the past: earlier levels, and the last return of nodes.

Values only. Made by `core/facts/observe.py` as parts of an observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from kafkafeatures.core.facts.readings import Mark, Moves


class PastLevels(Struct, frozen=True):
    """History of levels from the metadata log; times are those of its records. given_up_at: when a level above 0 was
    last changed to another one, by feature and level. since: time from which on the history is complete; None: since
    the cluster began. at: time of the last record. moves: changes of levels by feature, from `since_offset` on.
    """

    given_up_at: Mapping[tuple[str, int], datetime]
    since: datetime | None
    at: datetime
    since_offset: int = 0
    moves: Mapping[str, Moves] = field(default_factory=dict)


class LastRegistration(Struct, frozen=True):
    """The last registration of any broker, if all brokers are registered in KRaft mode: since then no broker has
    returned to ZooKeeper mode. offset: offset of its record. at: its latest possible time. read_at: time at which the
    log was read. Times are by the clock that stamps the log.
    """

    offset: int
    at: datetime
    read_at: datetime


class Returns(Struct, frozen=True):
    """Last return of each registered node: its registration or unfencing. times: latest possible time of the return, by
    id; it may change a little from reading to reading. marks: identity of the return, by id, equal in all readings of
    this process. read_at: time at which the log was read. Times are by the clock that stamps the log.
    """

    times: Mapping[int, datetime]
    read_at: datetime
    marks: Mapping[int, Mark] = field(default_factory=dict)
