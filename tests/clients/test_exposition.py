"""Scrapes in the text format of any exporter: what is read, and what is refused because a part may be missing."""

from __future__ import annotations

import contextlib
import gzip
import io
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients.exposition import MAX_LINE, parse_sample, read_exposition
from kafkafeatures.core.clients.exporters import BrokerCounters, ScrapeRefused
from tests.amounts import share
from tests.clients.exporters import AGENT, BESIDE, EXPORTERS, START, Counters, bitnami, process_start, strimzi

COUNTERS: Counters = {("ApiVersions", 3): 12.0, ("Fetch", 11): 2_000_000.0, ("Produce", 2): 7.0, ("Produce", 9): 8.0}
EACH = pytest.mark.parametrize("exporter", EXPORTERS.values(), ids=EXPORTERS)


def read(text: str | bytes) -> BrokerCounters:
    return read_exposition(io.BytesIO(text.encode() if isinstance(text, str) else text))


@EACH
def test_every_exporter_shows_the_same_counters_and_start(exporter: Callable[[Counters], str]) -> None:
    assert read(exporter(COUNTERS)) == BrokerCounters(START, COUNTERS, accepts_removed=True)
    assert read(exporter(COUNTERS).replace("\n", "\r\n")) == BrokerCounters(START, COUNTERS, accepts_removed=True)


@EACH
def test_a_broker_of_kafka_4_lacks_what_shows_an_older_one(exporter: Callable[[Counters], str]) -> None:
    text = exporter(COUNTERS)
    for other in ("Produce", "ElectLeaders", "Heartbeat", "Rebalance"):  # 4.0 can have the last two
        newer = text.replace("ElectLeader", other).replace("_electleader_", f"_{other.lower()}_")
        assert newer != text
        assert read(newer) == BrokerCounters(START, COUNTERS, accepts_removed=False)


@EACH
def test_a_scrape_that_was_cut_anywhere_is_refused_or_whole(exporter: Callable[[Counters], str]) -> None:
    text = exporter(COUNTERS).encode()
    whole = read(text)
    for end in range(len(text)):
        try:
            assert read(text[:end]) in (whole, replace(whole, accepts_removed=False))
        except ScrapeRefused:
            continue


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no request counters"),
        (AGENT + process_start(), "no request counters"),
        (strimzi(COUNTERS).replace("version=", "ver="), "mangles kafka_network_requestmetrics_requests_total"),
        (strimzi(COUNTERS).replace('request="Produce"', 'request="Produce, user=a"'), "mangles"),
        (strimzi(COUNTERS).replace('"ApiVersions"', '"Heartbeat"'), "leaves out some of the APIs"),
        (strimzi(COUNTERS).replace(process_start(), "a 1\n"), "does not show when the broker started"),
        (bitnami(COUNTERS).replace("java_lang_runtime", "java_lang_other"), "exporter beside the broker"),
        (strimzi(COUNTERS).replace(AGENT, BESIDE), "exporter beside the broker"),
        (strimzi(COUNTERS).replace("Produce", "Prod\xff").encode("latin-1"), "mangles"),
        (strimzi(COUNTERS).replace(" 7.0", " NaN"), "is not a count"),
        (strimzi(COUNTERS).replace(" 7.0", " -7"), "is not a count"),
        (strimzi(COUNTERS).replace(" 7.0", " 7_0"), "is not a sample"),
        (strimzi(COUNTERS).replace('version="9"', 'version="2"'), "has two counts"),
        (strimzi(COUNTERS).replace('version="9"', 'version="9",pod="b"'), "several brokers"),
        (strimzi(COUNTERS) + strimzi(COUNTERS), "not in one piece"),
        (strimzi(COUNTERS) + bitnami(COUNTERS), "counters twice"),
        ("x" * (MAX_LINE + 1), "a line of more than"),
    ],
)
def test_what_may_be_missing_a_part_is_refused_with_the_reason(text: str | bytes, message: str) -> None:
    with pytest.raises(ScrapeRefused, match=message):
        read(text)


def test_one_line_of_two_gigabytes_is_refused_at_once_and_not_held() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            view = memoryview(buffer)  # type: ignore[arg-type]  # a writable buffer
            view[:] = b"x" * len(view)
            return len(view)

    tracemalloc.start()
    with pytest.raises(ScrapeRefused):
        read_exposition(io.BufferedReader(Endless()))
    assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    tracemalloc.stop()


def test_a_hostile_line_costs_no_more_time_than_its_length() -> None:
    family = "kafka_network_requestmetrics_requests_total"
    began = time.process_time()
    for filling in (
        "{" + "} " * 30_000,
        "{" + 'a="' * 20_000,
        "{" + '\\"' * 30_000,
        " " * 60_000,
        "{}" + " 1" * 30_000,
    ):
        assert parse_sample(family + filling) is None
    assert time.process_time() - began < 2


LABELS = st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=8), max_size=4)


@settings(max_examples=share(300))
@given(LABELS, st.floats(allow_nan=False, allow_infinity=False))
def test_a_line_is_read_as_the_library_of_prometheus_reads_it(labels: dict[str, str], value: float) -> None:
    escaped = {
        name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, text in labels.items()
        if text.isprintable() or text == "\n"
    }
    line = "some_name{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + f"}} {value!r}"
    (family,) = text_string_to_metric_families(line + "\n")
    sample = parse_sample(line)
    assert sample is not None
    (theirs,) = family.samples
    assert (sample.name, sample.labels, sample.value) == (theirs.name, theirs.labels, theirs.value)


@settings(max_examples=share(300))
@given(st.data())
def test_damaged_scrapes_are_refused_and_raise_nothing_else(data: st.DataObject) -> None:
    exporter = data.draw(st.sampled_from(sorted(EXPORTERS)))
    text = bytearray(EXPORTERS[exporter](COUNTERS).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=10))
    with contextlib.suppress(ScrapeRefused):
        assert read(bytes(text)).counters


REAL = {"plain-1.0.1": 1_795_913_338_875, "strimzi-0.20.0": 1_795_913_348_647, "strimzi-1.0.1": 1_795_913_357_859}
"""Scrapes of Kafka 3.9.2 by agents of two releases, with Strimzi's rules and without any, and when it started."""
REAL_4 = {"plain-1.0.1-4.1.2": 1_795_920_516_571, "strimzi-1.0.1-4.1.2": 1_795_920_523_297}
"""Scrapes of Kafka 4.1.2, which was sent the same requests, and refused those of versions that it lacks."""


def golden(name: str) -> bytes:
    return gzip.decompress((Path(__file__).parent / "golden" / f"{name}.prom.gz").read_bytes())


@pytest.mark.parametrize("name", REAL_4)
def test_a_real_broker_of_kafka_4_counts_nothing_that_it_refuses_and_does_not_look_like_an_older_one(name: str) -> None:
    scrape = read(golden(name))
    assert scrape.start == REAL_4[name]
    assert not scrape.accepts_removed
    assert [version for api, version in scrape.counters if api == "ListOffsets"] == []
    assert scrape.counters["Metadata", 0] == 1


@pytest.mark.parametrize("name", REAL)
def test_a_scrape_of_a_real_broker_by_a_real_exporter_is_read(name: str) -> None:
    text = golden(name)
    scrape = read(text)
    assert scrape.start == REAL[name]
    assert scrape.accepts_removed
    assert scrape.counters["ListOffsets", 0] == 2
    assert scrape.counters["Metadata", 0] == 1
    assert {api for api, _ in scrape.counters} >= {"ApiVersions", "BrokerRegistration", "BrokerHeartbeat"}
    for end in range(0, len(text), 499):
        try:
            assert read(text[:end]) in (scrape, replace(scrape, accepts_removed=False))
        except ScrapeRefused:
            continue
