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
from kafkafeatures.client_files.exposition import MAX_LINE, ExpositionReader, parse_sample
from kafkafeatures.core.clients.exporters import BrokerCounters, ScrapeRefused
from tests.amounts import share
from tests.clients.exporters import (
    AGENT,
    BESIDE,
    EXPORTERS,
    MEMORY,
    PURGATORY,
    START,
    WHOLE,
    Counters,
    bitnami,
    confluent,
    process_start,
    strimzi,
)

COUNTERS: Counters = {("ApiVersions", 3): 12.0, ("Fetch", 11): 2_000_000.0, ("Produce", 2): 7.0, ("Produce", 9): 8.0}
LATE = AGENT + process_start() + PURGATORY + strimzi(COUNTERS).replace(AGENT, "").replace(MEMORY, "")
LATE = LATE[: LATE.rindex("# TYPE process_start")] + MEMORY
"""A scrape in which only the family of memory comes behind the counters, so that a cut can end within them."""


def total(*counts: list[str | int]) -> str:
    """Samples with the requests of an API in all versions."""
    name = "kafka_network_requestmetrics_totaltimems_count"
    return "".join(f'{name}{{request="{api}"}} {count}\n' for api, count in counts)


EACH_EXPORTER = pytest.mark.parametrize("exporter", EXPORTERS.values(), ids=EXPORTERS)


def read(text: str | bytes) -> BrokerCounters:
    return ExpositionReader().read(io.BytesIO(text.encode() if isinstance(text, str) else text))


@EACH_EXPORTER
def test_every_exporter_shows_the_same_counters_and_start(exporter: Callable[[Counters], str]) -> None:
    assert read(exporter(COUNTERS)) == BrokerCounters(START, COUNTERS, accepts_removed=True)
    assert read(exporter(COUNTERS).replace("\n", "\r\n")) == BrokerCounters(START, COUNTERS, accepts_removed=True)


@EACH_EXPORTER
def test_a_broker_without_the_purgatory_of_elections_may_be_of_kafka_4(exporter: Callable[[Counters], str]) -> None:
    text = exporter(COUNTERS)
    for other in ("Produce", "ElectLeaders", "Heartbeat", "Rebalance"):  # Kafka 4.0 can have the last two
        newer = text.replace("ElectLeader", other).replace("_electleader_", f"_{other.lower()}_")
        assert newer != text
        assert read(newer) == BrokerCounters(START, COUNTERS, accepts_removed=False)


@EACH_EXPORTER
def test_a_scrape_that_is_cut_off_anywhere_is_refused_or_has_every_counter(exporter: Callable[[Counters], str]) -> None:
    text = exporter(COUNTERS).encode()
    whole = read(text)
    for end in range(len(text)):
        try:
            # The mark of an older release may be in the part that is cut off.
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
        (strimzi(COUNTERS).replace(" 7.0", " 7_0"), "no sample of kafka_network"),
        (strimzi(COUNTERS).replace('version="9"', 'version="2"'), "has two counts"),
        (strimzi(COUNTERS).replace('version="9"', 'version="9",pod="b"'), "several brokers"),
        (strimzi(COUNTERS) + strimzi(COUNTERS), "not in one piece"),
        (strimzi(COUNTERS).replace("jmx_scrape_error 0.0", "jmx_scrape_error 1.0"), "the exporter broke off"),
        (strimzi(COUNTERS).replace("jmx_scrape_error 0.0", "jmx_scrape_error NaN"), "the exporter broke off"),
        (strimzi(COUNTERS).replace(WHOLE, ""), "has no jmx_scrape_error"),
        (confluent({**COUNTERS, ("Produce", 2): 0.0}), "export Count, not a rate"),
        (confluent({**COUNTERS, ("Produce", 9): 41.7}), "export Count, not a rate"),
        (strimzi(COUNTERS) + total(["Produce", 18]), "counts more requests of Produce"),
        (strimzi(COUNTERS) + total(["Metadata", 3]), "counts more requests of Metadata"),
        (
            strimzi(COUNTERS).replace(process_start(), process_start(1_500_000_000_000)),
            "a start of the broker that cannot",
        ),
        (strimzi(COUNTERS).replace(process_start(), process_start(START // 1000)), "a start of the broker that cannot"),
        (strimzi(COUNTERS).replace(" 7.0", f" 7.0 {START}"), "has times of its own"),
        (strimzi(COUNTERS).replace(process_start(), process_start()[:-1] + f" {START}\n"), "has times of its own"),
        (LATE.partition("# TYPE jvm")[0] + "curl: (18) transfer closed\n", "something that is not of a scrape"),
        (strimzi(COUNTERS) + bitnami(COUNTERS), "counters twice"),
        ("x" * (MAX_LINE + 1), "a line of more than"),
    ],
)
def test_a_scrape_that_may_be_incomplete_or_false_is_refused_with_the_reason(text: str | bytes, message: str) -> None:
    with pytest.raises(ScrapeRefused, match=message):
        read(text)


def test_a_total_that_counts_one_request_more_than_its_versions_is_accepted() -> None:
    """The versions of Produce sum to 15. One more request may have come while the exporter read the counters."""
    assert read(strimzi(COUNTERS) + total(["Produce", 16])).counters == COUNTERS


def test_a_reader_of_many_scrapes_takes_nothing_from_one_into_another() -> None:
    reader = ExpositionReader()
    for exporter in (*EXPORTERS.values(), *EXPORTERS.values()):
        for counters in (COUNTERS, {**COUNTERS, ("Produce", 9): 9.0, ("Metadata", 12): 3.0}):
            scrape = reader.read(io.BytesIO(exporter(counters).encode()))
            assert (scrape.counters, scrape.start) == (counters, START)


def test_a_metric_of_the_zookeeper_session_shows_a_broker_older_than_kafka_4() -> None:
    # ElectLeader among the waiting operations shows such a broker too; Kafka 2.3 does not have it.
    without_purgatory = strimzi(COUNTERS).replace("ElectLeader", "Fetch2")
    assert not read(without_purgatory).accepts_removed
    for name in (
        "kafka_server_sessionexpirelistener_zookeeperdisconnects_total",
        'kafka_server_SessionExpireListener_Count{name="ZooKeeperExpiresPerSec",}',
    ):
        assert read(f"{without_purgatory}{name} 0.0\n").accepts_removed


def test_a_start_reported_by_kafka_is_exact_to_a_minute_and_a_rounded_start_to_a_second() -> None:
    beside = strimzi(COUNTERS).replace(AGENT, BESIDE)
    kafka = beside.replace(process_start(), f"kafka_server_app_info_start_time_ms {START + 8000}\n")
    assert (read(kafka).start, read(kafka).start_error) == (START + 8000, 60_000)
    assert read(strimzi(COUNTERS)).start_error == 0
    rounded = read(strimzi(COUNTERS).replace(process_start(), process_start(START // 1000 * 1000)))
    assert rounded.start_error == 999


def test_an_endless_line_is_refused_and_not_held_in_memory() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            view = memoryview(buffer)  # type: ignore[arg-type]  # a writable buffer
            view[:] = b"x" * len(view)
            return len(view)

    tracemalloc.start()
    with pytest.raises(ScrapeRefused):
        ExpositionReader().read(io.BufferedReader(Endless()))
    assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    tracemalloc.stop()


def test_the_time_to_parse_a_hostile_line_grows_linearly_with_its_length() -> None:
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
    parsed = parse_sample(line)
    assert parsed is not None
    sample, has_time = parsed
    (theirs,) = family.samples
    assert not has_time
    assert (sample.name, sample.labels, sample.value) == (theirs.name, theirs.labels, theirs.value)


@settings(max_examples=share(300))
@given(st.data())
def test_a_damaged_scrape_is_read_or_refused_and_raises_nothing_else(data: st.DataObject) -> None:
    exporter = data.draw(st.sampled_from(sorted(EXPORTERS)))
    text = bytearray(EXPORTERS[exporter](COUNTERS).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=10))
    with contextlib.suppress(ScrapeRefused):
        assert read(bytes(text)).counters


REAL = {"plain-1.0.1": 1_795_913_338_875, "strimzi-0.20.0": 1_795_913_348_647, "strimzi-1.0.1": 1_795_913_357_859}
"""Recorded scrapes of Kafka 3.9.2, by the exporter, its rules and its release; and when the broker started (ms)."""
REAL_4 = {"plain-1.0.1-4.1.2": 1_795_920_516_571, "strimzi-1.0.1-4.1.2": 1_795_920_523_297}
"""Counters of Kafka 4.1.2, which was sent the same requests, and refused those of versions that it lacks."""


def golden(name: str) -> bytes:
    return gzip.decompress((Path(__file__).parent / "golden" / f"{name}.prom.gz").read_bytes())


@pytest.mark.parametrize("name", REAL_4)
def test_a_scrape_of_a_real_broker_of_kafka_4_has_no_refused_version_and_no_mark_of_an_older_release(name: str) -> None:
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
