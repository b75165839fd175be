"""Reads new files with evidence about the clients of one broker, and makes the broker's rows of them and of old rows.

It decides what happens to files that cannot be read. An engine calls it, in this process or in a worker of Spark.
`kafkafeatures.client_files` parses the files, as for `clients reduce`, `clients check` and `clients rejected`. Hours of
request logs go through a local folder, as files of `clients reduce`, so that memory does not grow with a log. The body
of a request is not kept, so no secret is.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from featurelog import stores
from featurelog.clients.kinds import Kind, kind_of, scrape_name
from featurelog.engine import Problem, TableFile, write_table
from featurelog.layout import LogFile
from featurelog.ledger import LogBegin, StoredRows
from featurelog.record_files import new_path
from featurelog.tables import api_counters, client_api_usage
from featurelog.tables.client_api_usage import Section, SectionFile
from featurelog.tables.rejected_requests import REFUSED, latest, refused_of, refused_rows, users_of, with_seen
from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.client_files.logs.client_search import ClientSearch
from kafkafeatures.client_files.logs.counting import HOUR, HourOfRequests, RequestCounter, read_hours
from kafkafeatures.client_files.logs.lines import LogStream, LogUnreadable, UpTo, read_block, uncompressed
from kafkafeatures.client_files.logs.reduced import read_hour, write_hour
from kafkafeatures.client_files.logs.server_log import read_rejections
from kafkafeatures.client_files.reduced import SUFFIX, ReducedHour, ReducedRefused
from kafkafeatures.client_files.scrapes import SUFFIX as SCRAPE_SUFFIX
from kafkafeatures.client_files.scrapes import read_scrape
from kafkafeatures.core.clients.evidence import MAX_GAP, CounterKey, Scrape
from kafkafeatures.core.clients.exporters import ScrapeRefused
from kafkafeatures.core.clients.rejections import RefusedRequest, Seen
from kafkafeatures.core.clients.targets import Targets
from kafkafeatures.core.words import counted

DAY = 24 * HOUR
_BLOCK = 1024 * 1024
_WHOLE = LogBegin(0, 0, 0, 0)
_LATEST_START = 253_402_300_799_999  # the last ms of the year 9999


@dataclass(frozen=True, slots=True)
class BrokerTask:
    """New files of one broker.

    files: (URI of the input, file). stored: the rows of earlier runs. begins: by path, what need not be read again of a
    request log. since: older evidence is left out, in ms. now: time of the run in ms. releases, targets: the releases
    that clients are judged for. logs: (URI of the input, file, time of its last request in ms) of each request log that
    an earlier run has read.
    """

    cluster: str
    broker: int
    files: tuple[tuple[str, LogFile], ...]
    stored: StoredRows
    begins: Mapping[str, LogBegin]
    since: int
    now: int
    releases: tuple[str, ...]
    targets: Targets
    logs: tuple[tuple[str, LogFile, int], ...] = ()

    @property
    def where(self) -> str:
        """The broker's folder in messages."""
        return f"{self.cluster}/{self.broker}"

    def matters(self, key: CounterKey) -> bool:
        """True for a counter that may be of a client that breaks with one of the releases."""
        return any(self.targets.matters(release)(key) for release in self.releases)


@dataclass(slots=True)
class BrokerRows:
    """Result of a task. stored: all rows of the broker. paths: of the files that were read.
    begins, ends: by path, of the request logs that were read, see `ledger.Broker`.
    remarks: by path, why a file is not used, or not all of it. problems: texts about files that could not be read, and
    that the next run reads again. size: bytes that were read.
    """

    stored: StoredRows
    paths: list[str] = field(default_factory=list)
    begins: dict[str, LogBegin] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    size: int = 0


class _FileRefused(Exception):
    """A file that is not used, or not to its end, and why."""


def read_broker(task: BrokerTask, output: str) -> BrokerRows | Problem:
    """Read the files of a task, and write the broker's rows to new files. Returns a problem if the input or
    the output is out of reach.
    """
    with TemporaryDirectory(prefix="kafkafeatures-") as folder:
        reading = _Reading(task, output, Path(folder))
        try:
            return reading.rows()
        except OSError as error:
            return Problem(f"{task.where}: {stores.reason(error)}", is_lost=True)


class _Reading:
    """Work on one task. `_sections`: by hour, its sections in new files. Their requests are in files of `folder`."""

    def __init__(self, task: BrokerTask, output: str, folder: Path) -> None:
        self._task, self._output, self._folder = task, output, folder
        self._result = BrokerRows(task.stored)
        self._scrapes: list[Scrape] = []
        self._refused: list[RefusedRequest] = []
        self._logs = {file.path: (uri, file, file.size) for uri, file, _ in task.logs}
        """By path of a request log: its input, the file, and the offset of the first byte that this task counts, which
        is the size of a file of which it counts nothing.
        """
        self._earlier_until = {file.path: end for _, file, end in task.logs}
        """By path of a request log: the latest time in ms that a request before that offset may have."""
        self._sections: dict[int, dict[Path, SectionFile]] = {}
        self._exposition = ExpositionReader()

    def rows(self) -> BrokerRows:
        """Read the files, then write the rows."""
        for uri, file in self._task.files:
            self._file(uri, file)
        stored = self._task.stored
        usage, refused = dict(self._usage(stored.usage)), self._connections(stored.refused)
        counters, scrapes = self._counters(stored)
        self._result.stored = StoredRows(usage, counters, refused, scrapes)
        return self._result

    def _file(self, uri: str, file: LogFile) -> None:
        """Read one file. What is wrong with it goes to the result."""
        result, location = self._result, f"{self._task.where}/{file.name}"
        try:
            kind = kind_of(file.name)
            if kind is Kind.SCRAPE:
                self._scrape(uri, file)
            elif kind is Kind.REDUCED:
                self._reduced(uri, file)
            else:
                if kind is not Kind.SERVER:
                    self._requests(uri, file, is_request_log=kind is Kind.REQUESTS)
                if kind is not Kind.REQUESTS:
                    self._rejections(uri, file)
            if stores.is_uri(uri) and not file.is_as_listed(uri):
                result.problems.append(f"{location}: replaced while it was read; run again")
                return
        except (_FileRefused, LogUnreadable, ReducedRefused, ScrapeRefused) as refused:
            result.remarks[file.path] = str(refused)
        except FileNotFoundError:
            result.problems.append(f"{location}: deleted since it was listed; run again")
            return
        except OSError as error:
            if stores.is_lost(error):
                raise
            result.problems.append(f"{location}: {stores.reason(error)}")
            return
        result.paths.append(file.path)
        result.size += file.size

    def _scrape(self, uri: str, file: LogFile) -> None:
        """Read a scrape. Raises _FileRefused, ScrapeRefused, OSError."""
        name = scrape_name(self._task.broker, file.name)
        if name is None:
            raise _FileRefused(f"expected TIME{SCRAPE_SUFFIX}, such as 1764374400{SCRAPE_SUFFIX}")
        if name.time > self._task.now + MAX_GAP:
            raise _FileRefused("its time is in the future: check the clock of what writes it")
        try:
            with closing(_opened(uri, file)) as stream:
                scrape = read_scrape(name, file.name, cast("BinaryIO", stream), self._exposition)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise _FileRefused("it is cut off or damaged") from None
        if scrape.start > _LATEST_START:
            raise _FileRefused("shows a start of the broker that is not a time")
        self._scrapes.append(scrape)

    def _reduced(self, uri: str, file: LogFile) -> None:
        """Copy a reduced log into the folder. Raises ReducedRefused, OSError."""
        path = self._folder / hashlib.sha256(file.path.encode()).hexdigest()
        with closing(_opened(uri, file, compressed=True)) as stream, path.open("wb") as copy:
            while block := stream.read(_BLOCK):
                copy.write(block)
        hour = read_hour(path)
        if hour.broker != self._task.broker:
            raise ReducedRefused(f"it is of broker {hour.broker}")
        digest = file.name.removesuffix(SUFFIX).rpartition("-")[2]
        self._add(hour, path, file.name, digest)

    def _requests(self, uri: str, file: LogFile, *, is_request_log: bool) -> None:
        """Count the requests of a log, hour by hour. Of a log that has only grown, the hours are read that were not
        complete when it was read last. Raises LogUnreadable, OSError.
        """
        begin, crc = _unchanged(uri, file, self._task.begins.get(file.path, _WHOLE))
        self._result.size -= begin.size
        self._logs[file.path] = uri, file, begin.size
        counter, rejected, is_silent = RequestCounter(str), begin.rejected, not begin.size
        raw = _Checked(_opened(uri, file, begin=begin.size, compressed=True), crc)
        try:
            with closing(raw if begin.size else uncompressed(raw)) as stream:
                for hour in read_hours(stream, counter):
                    rejected, is_silent = rejected + hour.rejected, False
                    self._result.ends[file.path] = max(hour.last, self._result.ends.get(file.path, 0))
                    self._earlier_until[file.path] = min(hour.first, self._earlier_until.get(file.path, hour.first))
                    path = write_hour(self._folder, self._task.broker, hour, "full")
                    if path is not None:
                        self._add(hour, path, file.name, hour.section)
        except LogUnreadable as error:
            raise LogUnreadable(f"not read to its end: {error}") from None
        size, of_them_rejected = counter.begin_of_open_hours
        # A compressed log is read as a whole each time, and one whose lines a container runtime may have cut.
        if not counter.is_full and begin.size + size and (begin.size or raw.first == b"["):
            self._result.begins[file.path] = LogBegin(
                begin.size + size, begin.rejected + of_them_rejected, begin.size + raw.size, raw.crc
            )
        if rejected := rejected + counter.unattributed[0]:
            self._result.remarks[file.path] = f"{counted(rejected, 'line')} of requests cannot be parsed"
        elif is_silent and is_request_log and file.size:
            self._result.remarks[file.path] = "it has no request"

    def _rejections(self, uri: str, file: LogFile) -> None:
        """Find the requests that a broker refused. Raises LogUnreadable, OSError."""
        with closing(_opened(uri, file)) as stream:
            self._refused = latest(chain(self._refused, read_rejections(iter(partial(read_block, stream), b""))))

    def _add(self, hour: HourOfRequests | ReducedHour, path: Path, name: str, digest: str) -> None:
        """Note that the file at `path` has requests of an hour. It replaces what was noted for the same path."""
        if self._task.since <= hour.hour <= self._task.now:
            section = SectionFile(hour.first, hour.last, partial(_section, path, name, digest))
            self._sections.setdefault(hour.hour, {})[path] = section

    def _usage(self, stored: Mapping[int, TableFile]) -> Iterator[tuple[int, TableFile]]:
        """The files of `client_api_usage`, by day: a new one for each day of which something was read. Days before the
        window are left out.
        """
        new_days = {hour // DAY for hour in self._sections}
        for day in sorted(new_days | stored.keys()):
            if is_before_window(day, self._task.since):
                continue
            if day not in new_days:
                yield day, stored[day]
            else:
                yield day, self._day(day, stored.get(day))

    def _day(self, day: int, stored: TableFile | None) -> TableFile:
        """Write the rows of a day, a row group for each hour, so that one hour is in memory at a time."""
        groups = {} if stored is None else _groups(pq.ParquetFile(stores.open_file(self._output, stored.path)))
        path, count = new_path(client_api_usage.TABLE.name), 0
        with stores.new_file(self._output, path) as stream:
            with pq.ParquetWriter(stream, client_api_usage.TABLE.schema, compression="zstd") as writer:
                for hour in range(day * DAY, (day + 1) * DAY, HOUR):
                    rows = self._hour(groups.get(hour), self._sections.get(hour, {}).values())
                    if rows is not None and rows.num_rows:
                        writer.write_table(rows, rows.num_rows)
                        count += rows.num_rows
            size = stream.tell()
        return TableFile(self._task.cluster, None, path, count, size)

    def _hour(self, load: Callable[[], pa.Table] | None, sections: Iterable[SectionFile]) -> pa.Table | None:
        rows, new_sections = None if load is None else load(), list(sections)
        if not new_sections:
            return rows
        old_sections = [] if rows is None else client_api_usage.sections_of(rows)
        return client_api_usage.rows_of(self._task.cluster, [*old_sections, *new_sections])

    def _counters(self, stored: StoredRows) -> tuple[TableFile | None, tuple[str, ...]]:
        """The file of `api_counters`, and the names of the files whose scrapes it has."""
        if not self._scrapes:
            return stored.counters, stored.scrapes
        scrapes = [*api_counters.scrapes_of(self._stored(stored.counters, api_counters.TABLE.schema)), *self._scrapes]
        in_window = [scrape for scrape in scrapes if scrape.time >= self._task.since]
        needed = list(api_counters.needed(in_window, self._task.matters))
        file = self._written(api_counters.TABLE.name, api_counters.rows_of(self._task.cluster, needed))
        return file, tuple(scrape.source for scrape in needed)

    def _connections(self, stored: TableFile | None) -> TableFile | None:
        """The file of the refused connections."""
        old_rows = self._stored(stored, REFUSED.schema)
        old_requests, old_users = list(refused_of(old_rows)), users_of(old_rows)
        requests = latest(chain(old_requests, self._refused))
        in_window = [each for each in requests if each.time is None or each.time >= self._task.since]
        users = with_seen(old_users, self._seen(in_window, old_users)) if in_window else {}
        if (in_window, users) == (old_requests, old_users):
            return stored
        return self._written(REFUSED.name, refused_rows(self._task.cluster, self._task.broker, in_window, users))

    def _seen(self, refused: Sequence[RefusedRequest], known: Container[str]) -> Seen:
        """The clients that request logs show on these connections. What earlier runs have read is searched again for
        connections that are not `known`, from an hour before: a broker closes idle ones sooner. Raises OSError.
        """
        new = (each.time for each in refused if each.connection not in known and each.time is not None)
        since = min(new, default=_LATEST_START) - HOUR
        by_connection = {each.connection: each.address for each in refused}
        search = ClientSearch({*by_connection.values()}, by_connection.keys())
        for path, (uri, file, begin) in self._logs.items():
            start = 0 if self._earlier_until.get(path, 0) >= since else begin
            if start < file.size:
                with suppress(LogUnreadable, FileNotFoundError), closing(_opened(uri, file, begin=start)) as stream:
                    search.read(stream)
        return search.seen

    def _stored(self, file: TableFile | None, schema: pa.Schema) -> pa.Table:
        if file is None:
            return schema.empty_table()
        return pq.read_table(stores.open_file(self._output, file.path), schema=schema, partitioning=None)

    def _written(self, name: str, rows: pa.Table) -> TableFile | None:
        return write_table(self._output, name, rows, self._task.cluster, None) if rows.num_rows else None


def is_before_window(day: int, since: int) -> bool:
    """True if the rows of a day are no longer needed. since: see `BrokerTask`."""
    return (day + 1) * DAY <= since


def _opened(uri: str, file: LogFile, *, begin: int = 0, compressed: bool = False) -> LogStream:
    """The bytes of a file from `begin` up to its listed size, uncompressed unless they are wanted as they are. Raises
    OSError.
    """
    source = stores.open_store(uri)[0].open_input_file(file.path)
    if begin:
        source.seek(begin)
    stream = UpTo(source, file.size - begin)
    return stream if compressed or begin else uncompressed(stream)


class _Checked:
    """A stream with the CRC of the bytes that were read. size: their number. first: the first one. crc: given, that of
    the bytes before the stream.

    A CRC shows accidents, such as a copy with a hole, at a twentieth of the time that SHA-256 takes.
    """

    def __init__(self, stream: LogStream, crc: int = 0) -> None:
        self._stream, self.crc, self.size, self.first = stream, crc, 0, b""

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self.crc, self.first = google_crc32c.extend(self.crc, data), self.first or data[:1]
        self.size += len(data)
        return data

    def skip(self, size: int) -> None:
        """Read so many bytes, or up to the end. Raises OSError."""
        end = self.size + size
        while self.size < end and self.read(min(_BLOCK, end - self.size)):
            pass

    def close(self) -> None:
        self._stream.close()


def _unchanged(uri: str, file: LogFile, begin: LogBegin) -> tuple[LogBegin, int]:
    """The begin of a log that need not be read again, and the CRC of its bytes: none of it unless the file still has
    all bytes that were read last. Raises OSError.
    """
    if not 0 < begin.read <= file.size:
        return _WHOLE, 0
    with closing(_Checked(_opened(uri, file, compressed=True))) as stream:
        stream.skip(begin.size)
        crc = stream.crc
        stream.skip(begin.read - begin.size)
        return (begin, crc) if stream.crc == begin.crc else (_WHOLE, 0)


def _section(path: Path, name: str, digest: str) -> Section:
    return Section(read_hour(path), name, digest)


def _groups(file: pq.ParquetFile) -> dict[int, Callable[[], pa.Table]]:
    """By hour in ms, a function that reads its row group."""
    column = file.schema_arrow.get_field_index("hour")
    hours: dict[int, Callable[[], pa.Table]] = {}
    for number in range(file.num_row_groups):
        begin = file.metadata.row_group(number).column(column).statistics.min
        hours[round(begin.timestamp() * 1000)] = partial(file.read_row_group, number)
    return hours
