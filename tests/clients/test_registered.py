"""`kafkafeatures clients check`: brokers that are not registered or no longer, evidence of others, files left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkafeatures.cli.clients.registered import of_cluster
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import LogReading
from kraftlog import Record, encode_batch
from kraftlog.records import frame
from kraftlog.schema import table
from tests.clients.test_command import (
    AT,
    DAY,
    HOUR,
    OLD,
    QUIET,
    at,
    check,
    evidence,
    log_of_three,
    registered,
    scrape,
    shown,
    width,
)
from tests.kafkafeatures.worlds import NOW, image, probe
from tests.kafkafeatures.worlds import asked as answering
from tests.kraftlog.build import broker, no_op, unregister

__all__ = ["evidence", "log_of_three", "width"]


def test_while_a_cluster_migrates_from_zookeeper_its_log_does_not_name_all_brokers(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    for state in (1, 2):
        change = frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": state})
        migrating = ["--log", str(registered(tmp_path / f"log{state}", 1, 2, 3, changes=[change]))]
        document = check(capsys, evidence, Exit.UNREACHABLE, *migrating)
        assert document["brokers"] is None
        assert "brokers in ZooKeeper mode are not all registered" in document["notes"][0]
    in_zookeeper_mode = broker(2, 9, isMigratingZkBroker=True)
    flagged = ["--log", str(registered(tmp_path / "flagged", 1, 2, 3, changes=[in_zookeeper_mode]))]
    assert check(capsys, evidence, Exit.UNREACHABLE, *flagged)["brokers"] is None


def test_a_live_cluster_with_brokers_in_zookeeper_mode_does_not_name_all_brokers() -> None:
    asked = probe(*(answering(id_) for id_ in (3001, 1, 2, 3)))
    waiting = image(
        {1: ({"metadata.version": (1, 21)}, False)}, {3001: {"metadata.version": (1, 21)}}, zk_migration_state=2
    )
    brokers = of_cluster(observe(asked, LogReading(waiting, 100, 3001, 4, NOW)), EvidenceWindow(0, AT), AT)
    assert brokers.registry is None
    assert "ZooKeeper mode" in brokers.notes[0]


def test_a_broker_that_was_unregistered_has_to_be_covered_until_its_end(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    path = registered(tmp_path / "log", 1, 2, 3, 4, until=AT - DAY)
    gone = encode_batch([Record(5, AT - HOUR, unregister(4, 4))], leader_epoch=1)
    path.write_bytes(path.read_bytes() + gone + encode_batch([Record(6, AT, no_op())], leader_epoch=1))
    document = check(capsys, evidence, Exit.UNREACHABLE, "--log", str(path))
    assert [entry["id"] for entry in document["brokers"] if not entry["covered"]] == [4]
    (gap,) = document["brokers"][3]["gaps"]
    assert (gap["from"], gap["to"]) == (at(AT - 35 * DAY), at(AT - HOUR))


def test_scrapes_of_another_cluster_with_the_same_ids_are_a_contradiction(
    capsys: pytest.CaptureFixture[str], evidence: Path, tmp_path: Path
) -> None:
    other = ["--log", str(registered(tmp_path / "log", 1, 2, 3, since=AT - 36 * DAY))]
    document = check(capsys, evidence, Exit.UNREACHABLE, *other)
    assert {gap["cause"] for entry in document["brokers"] for gap in entry["gaps"]} == {"Contradiction"}
    assert "it is of another cluster or broker" in shown(capsys, evidence, *other)


def test_the_page_names_the_folder_of_evidence_and_the_cluster(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str], tmp_path: Path
) -> None:
    (tmp_path / "log" / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n")
    assert f"evidence {evidence}; cluster AAAAAAAAAAAAAAAAAAAAAA" in shown(
        capsys, evidence, *log_of_three, "-o", "html"
    )


def test_files_links_and_folders_that_are_not_read_are_named(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str], tmp_path: Path
) -> None:
    (evidence / "2").rename(tmp_path / "elsewhere")
    (evidence / "2").symlink_to(tmp_path / "elsewhere")
    name = next((evidence / "3").iterdir())
    name.rename(name.with_name(f"{name.name}.gz"))
    scrape(evidence / "x" / "4", "2026", QUIET)
    document = check(capsys, evidence, Exit.UNREACHABLE, *log_of_three)
    assert len(document["notRead"]) == 3
    assert f"{evidence}/2: not read: it is a link to a folder" in document["notRead"]
    assert any(f"{name}.gz: not read: expected BROKER/TIME.prom" in line for line in document["notRead"])
    assert any(f"{evidence}/x/4/2026: not read: it is too deep" in line for line in document["notRead"])


@pytest.mark.parametrize("form", ["table", "json", "yaml", "html"])
def test_a_folder_whose_name_is_not_utf_8_is_reported_in_every_format(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str], form: str
) -> None:
    folder = os.fsencode(evidence) + b"/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/1.prom", "wb"):
        pass
    assert (
        main(
            [
                "clients",
                "check",
                "--release",
                "4.1",
                "--evidence",
                str(evidence),
                "--at",
                at(),
                *log_of_three,
                "-o",
                form,
            ]
        )
        == 0
    )
    # Without --at the window ends now, long after the scrapes; the line about the folder is the same.
    assert (
        main(["clients", "check", "--release", "4.1", "--evidence", str(evidence), *log_of_three, "-o", form])
        == Exit.UNREACHABLE
    )
    assert "\ufffd\ufffd/1.prom: not read" in capsys.readouterr().err


def test_a_ready_verdict_has_a_date_if_there_are_later_scrapes(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    assert shown(capsys, evidence, *log_of_three).startswith("Ready: ")
    scrape(evidence, "1", OLD, AT + DAY)
    text = shown(capsys, evidence, *log_of_three)
    assert text.startswith("Ready at 2026-01-07 23:59 UTC: ")
    assert "there are scrapes of a time after the window, which were not looked at" in text


def test_an_unreadable_line_of_a_scrape_is_named_by_its_number(
    capsys: pytest.CaptureFixture[str], evidence: Path, log_of_three: list[str]
) -> None:
    path = next((evidence / "2").iterdir())
    path.write_text(path.read_text().replace(" 2000000.0", " 2_0"))
    line, *_ = check(capsys, evidence, Exit.UNREACHABLE, *log_of_three)["notRead"]
    assert ": not read: it has in line 10 no sample of kafka_network_requestmetrics_requests_total" in line
