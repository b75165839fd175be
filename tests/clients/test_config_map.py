"""A ConfigMap as evidence: the same verdict as by files, no entry is ignored in silence, and less never makes ready."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files import config_map
from kafkafeatures.client_files.config_map import MAX_OWNERS_BYTES, MAX_PROBLEM, ConfigMapEvidence, read_config_map
from kafkafeatures.core.clients.evidence import MAX_GAP, MINUTE, Scrape
from kafkafeatures.core.clients.senders import ClientOwner
from kafkafeatures.core.clients.verdict import ClientVerdict
from tests.amounts import share
from tests.clients.exporters import answer_of
from tests.clients.histories import BEGIN, DAY, DAYS, END, History, Process, checked
from tests.clients.request_lines import AT, body, plain
from tests.clients.test_soundness import BROKERS, UNSEEN, histories, whole

NOW = END * MINUTE
TIME = NOW // 1000
"""The time of the newest scrape, as names have it."""
QUIET = History(dict.fromkeys((1, 2), (Process(BEGIN - DAY, END),)))
USED = History({**QUIET.brokers, 1: (Process(BEGIN - DAY, END, uses=(END - DAY,)),)})


def name_of(scrape: Scrape) -> str:
    return f"{scrape.broker}-{scrape.time // 1000}.prom.gz"


def entries_of(scrapes: Iterable[Scrape]) -> dict[str, bytes]:
    return {name_of(scrape): gzip.compress(answer_of(scrape).encode(), mtime=0) for scrape in scrapes}


def reduced(folder: Path, *texts: str) -> dict[str, bytes]:
    """Reduced request logs of broker 1 with these requests, as entries."""
    log = folder / "kafka-request.log"
    log.write_text("".join(plain(AT, text) + "\n" for text in texts))
    assert main(["clients", "reduce", "--broker", "1", "--to", str(folder / "reduced"), str(log)]) == Exit.DONE
    return {f"1-{path.name}": path.read_bytes() for path in (folder / "reduced").rglob("*.gz")}


def verdict_of(evidence: ConfigMapEvidence) -> ClientVerdict:
    """The verdict for the window that ends at the newest scrape."""
    return checked(evidence.scrapes, BROKERS, at=evidence.newest // MINUTE).verdict


def test_entries_have_the_scrapes_that_their_names_and_contents_say() -> None:
    scrapes = whole(QUIET)
    evidence = read_config_map(entries_of(scrapes), NOW)
    assert set(map(repr, evidence.scrapes)) == {repr(replace(scrape, source=name_of(scrape))) for scrape in scrapes}
    assert (evidence.newest, evidence.problems) == (NOW, ())
    text = {name.removesuffix(".gz"): gzip.decompress(data) for name, data in entries_of(scrapes).items()}
    assert len(read_config_map(text, NOW).scrapes) == len(scrapes)


@pytest.mark.parametrize(
    ("history", "verdict"), [(QUIET, ClientVerdict.READY), (USED, ClientVerdict.BLOCKED)], ids=["quiet", "used"]
)
def test_a_config_map_makes_a_cluster_ready_or_blocked(history: History, verdict: ClientVerdict) -> None:
    assert verdict_of(read_config_map(entries_of(whole(history)), NOW)) is verdict


TEXT = answer_of(whole(QUIET)[-1]).encode()
WHOLE = gzip.compress(TEXT, mtime=0)
EMPTY = gzip.compress(b"{}", mtime=0)
MERGED = b"a0: &a0 {team: a}\n" + b"".join(
    b"a%d: &a%d {<<: [%s]}\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 6)
)
"""YAML of which a loader makes ten times as much for each level."""


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("README.md", b"", "expected BROKER-TIME.prom, BROKER-TIME.prom.gz, *.jsonl.gz or owners.yaml"),
        ("broker1-1.prom", TEXT, "expected BROKER-TIME.prom, such as 3-1764374400.prom"),
        (f"1_{TIME}.prom", TEXT, "expected BROKER-TIME.prom, such as 3-1764374400.prom"),
        (f"1-{TIME}-2.prom.gz", WHOLE, "expected BROKER-TIME.prom, such as 3-1764374400.prom"),
        # A clock may be 300 s ahead.
        (f"1-{TIME + 301}.prom.gz", WHOLE, "its time is in the future: check the clock of what writes it"),
        (f"1-{TIME}.prom.gz", WHOLE[:-9], "it is cut off or damaged"),
        (f"1-{TIME}.prom.gz", WHOLE[:40] + b"\xff" * 9 + WHOLE[49:], "it is cut off or damaged"),
        (f"1-{TIME}.prom.gz", TEXT, "it is cut off or damaged"),
        (f"1-{TIME}.prom.gz", b"", "it has no request counters"),
        (f"1-{TIME}.prom", WHOLE, "it has no request counters"),
        (f"1-{TIME}.prom", b"<html>not found</html>", "it has no request counters"),
        (f"1-{TIME}.prom", b'kafka_server_app_info{a="\x1b[2J\xe2\x80\xae} 1\n', "it has in line 1 no sample of"),
        ("a.jsonl.gz", b"{}", "it is cut off or damaged; make it again with clients reduce; the clients"),
        ("a.jsonl.gz", EMPTY, "it is not a reduced request log; make one with clients reduce; the"),
        ("owners.yaml", b"teams: []", "Object contains unknown field `teams`; expected owners"),
        ("owners.yaml", b"owners: !!bool maybe", "a value does not match its tag; expected owners"),
        ("owners.yaml", b"owners: " + b"1:" * 200 + b"1.0", "a value does not match its tag; expected owners"),
        ("owners.yaml", MERGED, "could not determine a constructor for the tag 'tag:yaml.org,2002:merge'"),
        ("owners.yaml", b" " * (MAX_OWNERS_BYTES + 1), "with it, entries of its kind have more than 128 KiB"),
    ],
)  # fmt: skip
def test_an_entry_that_is_not_used_has_a_short_printable_line_that_says_why(
    name: str, data: bytes, reason: str
) -> None:
    evidence = read_config_map({name: data}, NOW)
    (line,) = evidence.problems
    assert line.startswith(f"{name}: not used: {reason}")
    assert line.isprintable()
    assert len(line.encode()) <= MAX_PROBLEM
    assert not evidence.scrapes


def test_the_clock_of_the_scraper_may_be_five_minutes_ahead() -> None:
    entry = {f"1-{TIME + MAX_GAP // 1000}.prom.gz": WHOLE}
    assert read_config_map(entry, NOW).newest == NOW + MAX_GAP


def test_a_reduced_log_of_another_format_is_named(tmp_path: Path) -> None:
    ((name, data),) = reduced(tmp_path, body()).items()
    later = gzip.compress(gzip.decompress(data).replace(b'"format":1', b'"format":2'))
    (line,) = read_config_map({name: later}, NOW).problems
    assert "its format is 2; expected 1" in line


def test_names_of_clients_and_owners_are_read_beside_scrapes(tmp_path: Path) -> None:
    logs = reduced(tmp_path, body("PRODUCE", 2, "pay-7"))
    owners = {"owners.yaml": b"owners:\n- {team: Payments, clientId: 'pay-*'}\n"}
    scrapes = entries_of(whole(QUIET))
    evidence = read_config_map({**scrapes, **logs, **owners}, NOW)
    assert [(use.client_id, use.name, use.version) for use in evidence.uses] == [("pay-7", "Produce", 2)]
    assert evidence.owners == (ClientOwner("Payments", "pay-*"),)
    assert len(evidence.scrapes) == len(scrapes)


def test_an_entry_that_decompresses_to_too_much_is_refused_and_those_before_it_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config_map, "MAX_SCRAPE_BYTES", 2 * 1024 * 1024)
    bomb = gzip.compress(b"# \n" * 1024 * 1024)
    evidence = read_config_map({f"1-{TIME}.prom.gz": WHOLE, f"2-{TIME}.prom.gz": bomb}, NOW)
    assert [scrape.broker for scrape in evidence.scrapes] == [1]
    (line,) = evidence.problems
    assert "with it, entries of its kind have more than 2 MiB" in line
    assert evidence.newest == NOW


def test_request_logs_that_decompress_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_map, "MAX_LOG_BYTES", 300)
    evidence = read_config_map(reduced(tmp_path, body()), NOW)
    assert not evidence.uses
    (line,) = evidence.problems
    # 300 bytes, which the patched maximum is, are shown as 0 KiB.
    assert "with it, entries of its kind have more than 0 KiB; the clients in it are not named" in line


def test_more_scrapes_than_the_maximum_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_map, "MAX_SCRAPES", 2)
    evidence = read_config_map(entries_of(whole(QUIET)), NOW)
    assert len(evidence.scrapes) == 2
    assert len(evidence.problems) == len(whole(QUIET)) - 2
    assert "the ConfigMap has more than 2 scrapes" in evidence.problems[0]


def test_a_newest_scrape_that_is_damaged_leaves_a_gap_and_does_not_end_the_window_earlier() -> None:
    entries = entries_of(QUIET.scrapes((BEGIN, END - 20, END)))
    assert verdict_of(read_config_map(entries, NOW)) is ClientVerdict.READY
    for ids in ((1,), (2,), (1, 2)):
        names = [f"{id_}-{TIME}.prom.gz" for id_ in ids]
        evidence = read_config_map({**entries, **{name: entries[name][:-20] for name in names}}, NOW)
        assert evidence.newest == NOW
        assert verdict_of(evidence) is ClientVerdict.UNKNOWN


def is_sent_a_removed_version(history: History, end: int) -> bool:
    """Tell whether a removed version was sent within the window up to the minute `end`, at a time that evidence without
    a gap shows.
    """
    return any(
        end - DAYS * DAY + UNSEEN < use < end - UNSEEN and use <= process.end - UNSEEN
        for processes in history.brokers.values()
        for process in processes
        for use in process.uses
    )


@settings(max_examples=share(1000), deadline=None)
@given(st.data())
def test_entries_that_are_removed_or_truncated_never_make_a_cluster_ready(data: st.DataObject) -> None:
    history = data.draw(histories())
    entries = entries_of(whole(history))
    is_plain = data.draw(st.booleans())
    for name in data.draw(st.lists(st.sampled_from(sorted(entries)), max_size=4, unique=True)):
        entry = entries.pop(name)
        if data.draw(st.booleans()):
            text = gzip.decompress(entry) if is_plain else entry
            entries[name.removesuffix(".gz") if is_plain else name] = text[: data.draw(st.integers(0, len(text) - 1))]
    evidence = read_config_map(entries, NOW)
    assert len(evidence.scrapes) + len(evidence.problems) == len(entries)
    if evidence.newest:
        verdict = verdict_of(evidence)
        event(verdict)
        assert verdict is not ClientVerdict.READY or not is_sent_a_removed_version(history, evidence.newest // MINUTE)
