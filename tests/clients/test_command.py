"""`kafkafeatures clients check`: scrapes in files, the brokers of a cluster or a log, a verdict and an exit code."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog import Record, encode_batch
from tests.clients.exporters import START, Counters, strimzi
from tests.kafkasim.test_process import heard, simulator
from tests.kraftlog.build import broker, no_op, segment

HOUR = 3_600_000
DAY = 24 * HOUR
AT = START + 40 * DAY
"""The end of the window, in ms: 2026-01-07 23:59 UTC. Its default length is 35 days; brokers started 40 days before."""
QUIET: Counters = {("ApiVersions", 3): 12.0, ("Fetch", 11): 2_000_000.0, ("Produce", 9): 8.0}
OLD: Counters = {**QUIET, ("Produce", 2): 700.0}
"""Kafka 4.x removed version 2 of Produce."""


def at(milliseconds: int = AT) -> str:
    """A time as the command reads and prints it."""
    from kafkafeatures.core.words import format_time

    return format_time(milliseconds)


def scrape(
    folder: Path, broker_name: str, counters: Counters, milliseconds: int = AT, *, refuses: bool = False
) -> None:
    """Write a scrape of a broker to its folder. `refuses`: the broker is of Kafka 4.x, so it lacks the metric that only
    older releases have.
    """
    path = folder / broker_name / f"{milliseconds}.prom"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each broker has a process of its own.
    started = START + int(re.sub("[^0-9]", "", broker_name))
    text = strimzi(counters).replace(f"{START / 1000:.12E}", f"{started / 1000:.12E}")
    path.write_text(text.replace('"ElectLeader"', '"RemoteFetch"') if refuses else text)


def registered(
    folder: Path,
    *brokers: int,
    until: int = AT,
    since: int = START,
    refusing: Sequence[int] = (),
    changes: Sequence[bytes] = (),
    restarts: Mapping[int, int] | None = None,
) -> Path:
    """Write a metadata log in which these brokers registered at `since`, and which ends at `until` (ms).
    `refusing`: brokers that run Kafka 4.x. `changes`: further records. `restarts`: by broker, the time at which its
    next process registered.
    """
    folder.mkdir()
    path = folder / segment(0)
    # Kafka 4.x supports metadata.version from level 7 on, earlier releases from 1 on.
    lowest = {number: 7 if number in refusing else 1 for number in brokers}
    features = {"name": "metadata.version", "maxSupportedVersion": 29}
    values = [broker(id_, id_, features=({**features, "minSupportedVersion": lowest[id_]},)) for id_ in brokers]
    records = [Record(offset, since + offset, value) for offset, value in enumerate([*values, *changes])]
    for id_, restarted in (restarts or {}).items():
        records.append(Record(len(records), restarted, broker(id_, 100 + id_)))
    path.write_bytes(
        encode_batch(records, leader_epoch=1) + encode_batch([Record(len(records), until, no_op())], leader_epoch=1)
    )
    return path


def check(capsys: pytest.CaptureFixture[str], folder: Path, code: Exit, *words: str, at_ms: int = AT) -> dict[str, Any]:
    """The JSON of a check for release 4.1, which has to end with this code."""
    command = [
        "clients",
        "check",
        "--release",
        "4.1",
        "--evidence",
        str(folder),
        "--at",
        at(at_ms),
        "-o",
        "json",
        *words,
    ]
    assert main(command) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def shown(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """The text of a check for release 4.1, as one line, whatever the width of the terminal."""
    main(["clients", "check", "--release", "4.1", "--evidence", str(folder), "--at", at(), *words])
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Three brokers that have run for 40 days, and that no old client used."""
    for number in (1, 2, 3):
        scrape(tmp_path / "scrapes", str(number), QUIET)
    return tmp_path / "scrapes"


@pytest.fixture
def log_of_three(tmp_path: Path) -> list[str]:
    """Flags for a log in which three brokers are registered."""
    return ["--log", str(registered(tmp_path / "log", 1, 2, 3))]


def test_a_cluster_without_old_clients_is_ready(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    document = check(capsys, evidence, Exit.DONE, *log_of_three)
    assert (document["kind"], document["verdict"], document["release"]) == ("ClientCheck", "Ready", "4.1")
    assert document["window"] == {"from": at(AT - 35 * DAY), "to": at()}
    assert document["brokers"] == [{"id": number, "covered": True, "gaps": []} for number in (1, 2, 3)]
    text = shown(capsys, evidence, *log_of_three)
    assert text.startswith("Ready: no client used an API version that Kafka 4.1 lacks ")
    assert "3 of 3 brokers covered" in text


def test_an_old_client_blocks_and_is_named_by_api_version_and_broker(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    scrape(evidence, "2", QUIET, AT - 10 * DAY)
    scrape(evidence, "2", OLD)
    document = check(capsys, evidence, Exit.BLOCKED, *log_of_three)
    assert document["uses"] == [
        {
            "kind": "Removed", "api": "Produce", "version": 2, "accepted": {"min": 3, "max": 13}, "brokers": [2],
            "requests": 700, "requestsPerDay": 70, "after": at(AT - 10 * DAY), "until": at(),
        }
    ]  # fmt: skip
    assert document["readyFrom"] == at(AT + 35 * DAY)
    text = shown(capsys, evidence, *log_of_three)
    assert text.startswith("Blocked: clients use API versions that Kafka 4.1 lacks ")
    assert "Used, and removed in Kafka 4.1 " in text
    assert re.search(r"Produce v2 +3-13 +70 +2025-12-28 23:59 +2026-01-07 23:59 +2\b", text)


def test_the_verdict_is_unknown_without_a_scrape_of_a_registered_broker(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    log_of_four = ["--log", str(registered(tmp_path / "log", 1, 2, 3, 4))]
    document = check(capsys, evidence, Exit.UNREACHABLE, *log_of_four)
    assert [gap["cause"] for gap in document["brokers"][3]["gaps"]] == ["NoEvidence"]
    text = shown(capsys, evidence, *log_of_four)
    assert "broker 4: " in text
    assert "no scrape of it" in text


def test_the_verdict_is_unknown_while_the_registered_brokers_are_not_known(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    assert check(capsys, evidence, Exit.UNREACHABLE)["brokers"] is None
    assert "use --bootstrap-server HOST:PORT or --log PATH" in shown(capsys, evidence)
    old = ["--log", str(registered(tmp_path / "log", 1, 2, 3, until=AT - HOUR))]
    assert check(capsys, evidence, Exit.UNREACHABLE, *old)["brokers"] is None
    assert f"use --at {at(AT - HOUR)}" in shown(capsys, evidence, *old)


def test_the_registered_brokers_are_those_of_a_live_cluster(capsys: pytest.CaptureFixture[str], evidence: Path) -> None:
    with simulator("--brokers", "4") as process:
        address = ("--bootstrap-server", str(heard(process)["bootstrapServers"]))
        now = round(time.time() * 1000)
        for number in (1, 2, 3):
            scrape(evidence, str(number), {**QUIET, ("Metadata", 12): 5.0}, now)
        document = check(capsys, evidence, Exit.UNREACHABLE, *address, at_ms=now)
        assert document["clusterId"]
        assert [entry["id"] for entry in document["brokers"] if not entry["covered"]] == [4]
        scrape(evidence, "4", QUIET, now)
        assert check(capsys, evidence, Exit.DONE, *address, at_ms=now)["verdict"] == "Ready"
        # A live cluster lists the brokers of now only: a window that ended more than five minutes ago needs a log.
        document = check(capsys, evidence, Exit.UNREACHABLE, *address, at_ms=now - 6 * 60_000)
        assert document["brokers"] is None
        assert "not at the time of --at" in document["notes"][0]


def test_a_broker_of_kafka_4_is_a_gap_unless_every_broker_refuses_removed_versions(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    """A broker of Kafka 4.x refuses removed versions and counts none of them, so its counters show no old client."""
    scrape(evidence, "2", QUIET, refuses=True)
    some = ["--log", str(registered(tmp_path / "some", 1, 2, 3, refusing=[2]))]
    document = check(capsys, evidence, Exit.UNREACHABLE, *some)
    assert [[gap["cause"] for gap in entry["gaps"]] for entry in document["brokers"]] == [[], ["MayRefuse"], []]
    text = " ".join(shown(capsys, evidence, *some).split())
    assert "export kafka.server:type=DelayedOperationPurgatory,delayedOperation=ElectLeader" in text
    every = ["--log", str(registered(tmp_path / "every", 1, 2, 3, refusing=[1, 2, 3]))]
    document = check(capsys, evidence, Exit.DONE, *every)
    assert "clients that fail already are not shown" in document["notes"][0]
    assert "clients that fail already are not shown" in shown(capsys, evidence, *every)


def test_folders_without_a_broker_id_and_scrapes_after_the_window_are_not_read(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    scrape(evidence, "3", QUIET, AT + 1)
    for name in ("kafka-2", "10.0.0.2", "-2"):
        (evidence / "2").rename(evidence / name)
        document = check(capsys, evidence, Exit.UNREACHABLE, *log_of_three)
        assert [entry["id"] for entry in document["brokers"] if not entry["covered"]] == [2]
        assert ["expected BROKER/TIME" in line for line in document["notRead"]].count(True) == 1
        assert [line.endswith("after the end of the window") for line in document["notRead"]].count(True) == 1
        (evidence / name).rename(evidence / "2")


def test_a_last_scrape_an_hour_before_the_end_of_the_window_leaves_a_gap(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    # `shown` adds --at as well; the later one counts.
    newer = ["--log", str(registered(tmp_path / "log", 1, 2, 3, until=AT + HOUR)), "--at", at(AT + HOUR)]
    text = shown(capsys, evidence, *newer)
    assert "brokers 1, 2, 3: " in text
    assert "(1 h): since the last scrape with other counts" in text
    assert "It can be ready as soon as the gaps are closed" in text


def test_a_broker_that_has_not_run_long_enough_says_when_it_can_be_ready(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    text = shown(capsys, evidence, *log_of_three, "--window", "50d")
    assert "before its process started" in text
    assert "It can be ready from 2026-01-17 23:59 UTC at the earliest" in text, "50 days after the brokers started"


def test_the_verdict_on_an_unknown_release_is_unknown(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    document = check(capsys, evidence, Exit.UNREACHABLE, *log_of_three, "--release", "9.9")
    assert (document["verdict"], document["isKnownRelease"], document["readyFrom"]) == ("Unknown", False, None)
    assert "release 9.9 is not known to this version; expected 3.9 to 4.4" in shown(
        capsys, evidence, *log_of_three, "--release", "9.9"
    )


def test_scrapes_of_several_clusters_are_never_taken_for_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log_of_three: list[str]
) -> None:
    folder = tmp_path / "scrapes"
    for cluster in ("east", "west"):
        for number in (1, 2, 3):
            scrape(folder / cluster, str(number), QUIET if cluster == "east" else OLD)
    assert main(["clients", "check", "--release", "4.1", "--evidence", str(folder)]) == Exit.USAGE
    assert "scrapes of several clusters: 'east', 'west'; use --cluster NAME" in capsys.readouterr().err
    assert check(capsys, folder, Exit.DONE, *log_of_three, "--cluster", "east")["cluster"] == "east"
    assert check(capsys, folder, Exit.UNREACHABLE, *log_of_three, "--cluster", "west")["uses"]


def test_a_scrape_that_cannot_be_read_is_named_and_makes_a_gap(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    path = next((evidence / "2").iterdir())
    path.write_bytes(path.read_bytes().partition(b"# TYPE process_start")[0])
    (evidence / "2" / "notes.prom").write_text("")
    (evidence / "README.txt").write_text("")
    command = ["clients", "check", "--release", "4.1", "--evidence", str(evidence), "--at", at(), *log_of_three]
    assert main(command) == Exit.UNREACHABLE
    captured = capsys.readouterr()
    assert f"{path}: not read: it ends in the request counters, and may be cut off" in captured.err
    assert "notes.prom: not read: expected BROKER/TIME.prom" in captured.err
    assert "no scrape of it" in captured.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--release", "four"], Exit.USAGE, "invalid release"),
        (["--window", "0d"], Exit.USAGE, "invalid window"),
        (["--window", "5"], Exit.USAGE, "invalid window"),
        (["--at", "yesterday"], Exit.USAGE, "invalid time"),
        (["--at", "2026-11-28T12:00:00"], Exit.USAGE, "invalid time"),
        (["--owners", "owners.yaml"], Exit.USAGE, "--owners needs --request-logs"),
        (["--evidence", "nowhere"], Exit.USAGE, "nowhere: No such file or directory"),
        (["--cluster", "north"], Exit.USAGE, "has no scrapes of cluster 'north'"),
        (["--log", "nowhere"], Exit.USAGE, "nowhere"),
        (["--log", ".", "--bootstrap-server", "a:1"], Exit.USAGE, "exclude each other"),
    ],
)
def test_the_last_line_of_stderr_says_which_value_of_a_flag_cannot_be_used(
    capsys: pytest.CaptureFixture[str], evidence: Path, words: Sequence[str], code: Exit, message: str
) -> None:
    assert main(["clients", "check", "--release", "4.1", "--evidence", str(evidence), *words]) == code
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[-1]


def test_control_characters_in_names_of_clusters_are_not_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "scrapes"
    scrape(folder / "a\x1b]0;title\x07", "1", QUIET)
    scrape(folder / "b\x1b[2J", "1", QUIET)
    assert main(["clients", "check", "--release", "4.1", "--evidence", str(folder)]) == Exit.USAGE
    captured = capsys.readouterr()
    assert "\x1b" not in captured.err + captured.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "--evidence", "."), "clients check: --release is required"),
        (("check", "--release", "4.1"), "clients check: expected either --prometheus URL or --evidence DIR"),
        (("check", "here", "--release", "4.1", "--evidence", "."), "clients check: unexpected argument 'here'"),
    ],
)
def test_missing_flags_and_unexpected_arguments_of_clients_check_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["clients", *words]) == Exit.USAGE
    assert message in capsys.readouterr().err


def test_the_page_shows_the_verdict_the_versions_in_use_and_every_gap(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    scrape(evidence, "2", QUIET, AT - 10 * DAY)
    scrape(evidence, "2", OLD)
    page = shown(capsys, evidence, *log_of_three, "--window", "50d", "-o", "html")
    assert "<h1>Clients and Kafka 4.1</h1>" in page
    assert "Blocked: clients use API versions that Kafka 4.1 lacks" in page
    assert "Produce v2" in page
    assert page.count('class="gap"') == 3 + 1, "one for each broker, before its start, and one in the legend"
    assert "before its process started, or the first scrape" in page


def test_the_page_shows_a_hostile_name_as_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log_of_three: list[str]
) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    scrape(folder, "1", QUIET)
    scrape(folder, "one-1", QUIET)  # not the id of a broker: its path is listed as not read
    page = shown(capsys, folder, *log_of_three, "-o", "html")
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img" not in page
