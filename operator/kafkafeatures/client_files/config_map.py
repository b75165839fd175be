"""Reads evidence about clients from the entries of a ConfigMap. Contents are those of the files that `clients check`
takes; the names are:

- `BROKER-TIME.prom` or `BROKER-TIME.prom.gz`: unchanged answers of exporters;
- `*.jsonl.gz`: request logs, reduced by `clients reduce`;
- `owners.yaml`: the owners of clients.

Pure. Called in a thread by `reconcile/client_reading.py`. What it decides: no entry is ignored in silence, each that is
not used has a line that says why; and what one ConfigMap can cost is bounded, also where it decompresses to much more
than the 1 MiB that the API server takes. Names and contents are foreign text, so lines are printable and short.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import BinaryIO, cast

from msgspec import Struct

from kafkafeatures.client_files import scrapes
from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.client_files.owners import OwnersRefused, parse_owners
from kafkafeatures.client_files.reduced import SUFFIX as LOG_SUFFIX
from kafkafeatures.client_files.reduced import ReducedHour, ReducedRefused, logged_uses, parse_hour
from kafkafeatures.client_files.scrapes import ScrapeName, parse_name, read_scrape
from kafkafeatures.core.clients.evidence import MAX_GAP, Scrape
from kafkafeatures.core.clients.exporters import ScrapeRefused
from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse
from kafkafeatures.core.words import cut

OWNERS = "owners.yaml"
SCRAPE_SUFFIXES = (scrapes.SUFFIX, f"{scrapes.SUFFIX}.gz")
MAX_SCRAPE_BYTES = 64 * 1024 * 1024
"""Bytes of all scrapes of a ConfigMap, decompressed: gzip makes scrapes 15 to 30 times as small."""
MAX_LOG_BYTES = 8 * 1024 * 1024
"""Bytes of all reduced logs of a ConfigMap, decompressed."""
MAX_OWNERS_BYTES = 128 * 1024
"""Bytes of `owners.yaml`: YAML takes a second for so much."""
MAX_SCRAPES = 1000
"""Scrapes of a ConfigMap, at most: those of one broker are compared with each other."""
MAX_PROBLEM = 256
"""Bytes of a line about an entry."""
_EXPECTED = f"expected BROKER-TIME{scrapes.SUFFIX}, BROKER-TIME{scrapes.SUFFIX}.gz, *{LOG_SUFFIX} or {OWNERS}"


class ConfigMapEvidence(Struct, frozen=True):
    """Contents of a ConfigMap.

    newest: time in ms of the newest scrape by its name, also if it could not be read; 0 without a scrape.
    uses, owners: contents of the reduced logs, and of the owners.
    problems: a line for each entry that was not used.
    """

    scrapes: tuple[Scrape, ...] = ()
    newest: int = 0
    uses: tuple[LoggedUse, ...] = ()
    owners: tuple[ClientOwner, ...] = ()
    problems: tuple[str, ...] = ()


class _EntryRefused(Exception):
    """An entry that is not used, and why."""


class _Budget:
    """Bytes that entries of one kind may still have, decompressed, of at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def taken(self, data: bytes) -> bytes:
        """The data, which counts from now on. Raises _EntryRefused if it is too much."""
        self._left -= len(data)
        if self._left < 0:
            size = f"{self._most // 1024} KiB" if self._most < 1024**2 else f"{self._most // 1024**2} MiB"
            raise _EntryRefused(f"with it, entries of its kind have more than {size}")
        return data


class _GzipEntry(gzip.GzipFile):
    """An entry in gzip, decompressed piece by piece as it is read. Raises _EntryRefused above its budget."""

    def __init__(self, data: bytes, budget: _Budget) -> None:
        super().__init__(fileobj=BytesIO(data))
        self._budget = budget

    def read(self, size: int | None = -1) -> bytes:
        return self._budget.taken(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._budget.taken(super().readline(size))


def scrape_entries(names: Iterable[str]) -> list[str]:
    """The names that are, or should be, those of scrapes, in order."""
    return sorted(name for name in names if name.endswith(SCRAPE_SUFFIXES))


def read_config_map(entries: Mapping[str, bytes], now: int) -> ConfigMapEvidence:
    """The contents of a ConfigMap. `now`: in ms; scrapes of a later time are refused."""
    problems: list[str] = []
    of_scrapes = set(scrape_entries(entries))
    of_logs = {name for name in entries if name.endswith(LOG_SUFFIX)}
    problems += [problem(name, _EXPECTED) for name in sorted(entries.keys() - of_scrapes - of_logs - {OWNERS})]
    names = _scrape_names(sorted(of_scrapes), now, problems)
    return ConfigMapEvidence(
        tuple(_scrapes(names, entries, problems)),
        max((name.time for name in names.values()), default=0),
        tuple(logged_uses(_hours(sorted(of_logs), entries, problems))),
        _owners(entries, problems),
        tuple(problems),
    )


def problem(entry: str, reason: str) -> str:
    """A line about an entry that was not used. `reason`: may have foreign text."""
    return cut(f"{cut(entry, MAX_PROBLEM // 2)}: not used: {reason}", MAX_PROBLEM)


def _scrape_names(entries: Iterable[str], now: int, problems: list[str]) -> dict[str, ScrapeName]:
    """Broker and time of each scrape, by its entry. `problems` gets a line for each that has none, or a later time."""
    names: dict[str, ScrapeName] = {}
    for entry in entries:
        broker, _, time = entry.removesuffix(".gz").removesuffix(scrapes.SUFFIX).partition("-")
        name = parse_name(broker, time)
        if name is None:
            problems.append(problem(entry, f"expected BROKER-TIME{scrapes.SUFFIX}, such as 3-1764374400.prom"))
        elif name.time > now + MAX_GAP:
            problems.append(problem(entry, "its time is in the future: check the clock of what writes it"))
        else:
            names[entry] = name
    return names


def _scrapes(names: Mapping[str, ScrapeName], entries: Mapping[str, bytes], problems: list[str]) -> Iterator[Scrape]:
    reader, budget = ExpositionReader(), _Budget(MAX_SCRAPE_BYTES)
    for number, (entry, name) in enumerate(names.items()):
        try:
            if number >= MAX_SCRAPES:
                raise _EntryRefused(f"the ConfigMap has more than {MAX_SCRAPES} scrapes")
            data = entries[entry]
            stream = _GzipEntry(data, budget) if entry.endswith(".gz") else BytesIO(budget.taken(data))
            yield read_scrape(name, entry, cast("BinaryIO", stream), reader)
        except _EntryRefused as refused:
            problems.append(problem(entry, str(refused)))
        except ScrapeRefused as refused:
            problems.append(problem(entry, f"it {refused}"))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            problems.append(problem(entry, "it is cut off or damaged"))


def _hours(names: Iterable[str], entries: Mapping[str, bytes], problems: list[str]) -> Iterator[ReducedHour]:
    budget = _Budget(MAX_LOG_BYTES)
    for name in names:
        try:
            yield parse_hour(cast("BinaryIO", _GzipEntry(entries[name], budget)))
        except (_EntryRefused, ReducedRefused) as refused:
            problems.append(problem(name, f"{refused}; the clients in it are not named"))


def _owners(entries: Mapping[str, bytes], problems: list[str]) -> tuple[ClientOwner, ...]:
    if OWNERS not in entries:
        return ()
    try:
        return tuple(parse_owners(_Budget(MAX_OWNERS_BYTES).taken(entries[OWNERS])))
    except (_EntryRefused, OwnersRefused) as refused:
        problems.append(problem(OWNERS, f"{refused}; clients are shown without owners"))
        return ()
