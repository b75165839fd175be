"""Evidence about clients in a run: what is read, what stays of it, and the verdict.

A `Case` has a cluster of brokers 1 and 2, whose scrapes cover the whole window. `TIMES` are six times in each of two
hours, so a log of `lines(TIMES)` has 12 requests; by default they are of client etl and of `OLD`, a version that Kafka
4.1 lacks.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from featurelog.engine import Engine
from featurelog.tables import client_api_usage
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files.logs.counting import RequestCounter, read_hours
from kafkafeatures.client_files.logs.lines import open_log
from kafkafeatures.client_files.logs.reduced import write_hour
from tests.clients.request_lines import body, plain
from tests.clients.test_rejected import connection, refused
from tests.featurelog.evidence import (
    BEGIN,
    DAY,
    END,
    HOUR,
    LOG,
    MINUTE,
    OLD,
    TIMES,
    Case,
    everything,
    lines,
    logs,
    place,
    requests,
    rows,
    run,
    scrapes,
    verdict,
)
from tests.featurelog.inputs import tables
from tests.kafkafeatures.cli.test_report_page import Page


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


# --- the verdict


def test_a_cluster_whose_brokers_are_covered_by_counters_is_ready(case: Case) -> None:
    assert case.run() == "ready"
    (row,) = rows(case.output, "client_readiness")
    assert row["unknown_because"] == row["blocking_versions"] == []
    covered = [(row["broker_id"], row["source"], row["covers"]) for row in rows(case.output, "evidence_coverage")]
    assert covered == [(1, "counters", "all"), (2, "counters", "all")]


def test_a_counter_of_a_removed_version_blocks_and_its_client_is_not_known(case: Case) -> None:
    scrapes(case.evidence, old=5)
    assert case.run() == "blocked"
    (row,) = rows(case.output, "client_blockers")
    # Kafka 4.1 needs version 3 of Produce at least.
    assert (row["api"], row["version"], row["min_needed"], row["requests"]) == (*OLD, 3, 5)
    assert (row["client_id"], row["evidence"], row["brokers"]) == (None, "counters", [1])


def test_a_request_log_names_the_client_with_its_owner_and_remedy(case: Case) -> None:
    scrapes(case.evidence, old=12)
    place(case.evidence, 1, LOG, lines(TIMES))
    assert case.run() == "blocked"
    (row,) = rows(case.output, "client_blockers")
    assert (row["client_id"], row["principal"], row["owner"], row["requests"]) == ("etl", "User:etl", "Payments", 12)
    assert (row["kind"], row["evidence"], row["brokers"]) == ("Client", "request log", [1])
    assert "raise its configured version" in row["remedy"]


def test_a_removed_version_that_only_a_log_shows_blocks_also_behind_the_end_of_the_metadata_log(case: Case) -> None:
    place(case.evidence, 1, LOG, lines([END + MINUTE]))
    assert case.run(at=END + 2 * MINUTE) == "blocked"


def test_request_logs_alone_never_make_a_cluster_ready(case: Case) -> None:
    shutil.rmtree(case.evidence)
    for broker in (1, 2):
        place(case.evidence, broker, LOG, lines(range(BEGIN, END, 30 * MINUTE), version=9))
    assert case.run() == "unknown"
    gaps = [
        (row["broker_id"], row["gap_reason"]) for row in rows(case.output, "evidence_coverage") if not row["source"]
    ]
    assert gaps == [(1, "NoEvidence"), (2, "NoEvidence")]
    assert {row["source"] for row in rows(case.output, "evidence_coverage")} == {None, "log_debug"}


def test_evidence_of_a_folder_without_a_metadata_log_is_read_and_proves_nothing(case: Case) -> None:
    scrapes(case.evidence, cluster="other")
    assert case.run() == "ready"
    assert verdict(case.output, "other") == "unknown"
    assert {row["cluster"] for row in rows(case.output, "upgrade_readiness")} == {"orders"}


def test_a_ready_verdict_becomes_unknown_a_day_after_the_evidence_ends(case: Case) -> None:
    assert case.run(at=END + 23 * HOUR) == "ready"
    place(case.evidence, 1, LOG, lines(TIMES, version=9))
    assert case.run(at=END + 24 * HOUR + MINUTE) == "unknown"


# --- each request counts once


def test_the_same_files_are_not_read_again_and_files_with_another_time_add_nothing(case: Case) -> None:
    def no_engine() -> Engine:
        raise AssertionError("there is nothing to read")

    log = place(case.evidence, 1, LOG, lines(TIMES))
    case.run()
    before = tables(case.output)
    assert sum(requests(case.output).values()) == 12
    case.run(start_engine=no_engine)
    assert case.sequence == 1, "one commit has the metadata log and the evidence"
    os.utime(log, ns=(1, 1))
    case.run()
    assert tables(case.output) == before


def test_a_log_that_has_grown_replaces_its_hours(case: Case) -> None:
    for count in (3, 7, 12):
        place(case.evidence, 1, LOG, lines(TIMES[:count]))
        case.run()
        assert sum(requests(case.output).values()) == count
    assert len(requests(case.output)) == 2, "one for each hour"


def test_rows_of_a_log_that_was_deleted_or_truncated_stay(case: Case) -> None:
    log = place(case.evidence, 1, LOG, lines(TIMES))
    case.run()
    place(case.evidence, 1, LOG, lines(TIMES[:2]))
    case.run()
    log.unlink()
    case.run()
    assert sum(requests(case.output).values()) == 12


def as_reduced(case: Case, log: Path) -> None:
    """Place the reduced logs of each hour beside the log."""
    with closing(open_log(log)) as stream:
        for hour in read_hours(stream, RequestCounter(str)):
            path = write_hour(case.output.with_name("reduced"), 1, hour, "full")
            assert path is not None
            shutil.copy(path, log.with_name(path.name))


COPIES: dict[str, Callable[[Case, Path], object]] = {
    "under another name": lambda case, log: place(case.evidence, 1, f"{LOG}.2026-11-23-19", log.read_bytes()),
    "compressed": lambda case, log: place(case.evidence, 1, f"{LOG}.1.gz", log.read_bytes()),
    "a part of it": lambda case, log: place(case.evidence, 1, f"{LOG}.1", log.read_bytes().partition(b"\n")[2]),
    "reduced": as_reduced,
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("is_later", [False, True], ids=["in the same run", "in a later run"])
def test_requests_in_a_log_and_in_a_copy_of_it_count_once(case: Case, name: str, *, is_later: bool) -> None:
    log = place(case.evidence, 1, LOG, lines(TIMES))
    if is_later:
        case.run()
    COPIES[name](case, log)
    case.run()
    assert sum(requests(case.output).values()) == 12


def test_the_parts_of_a_log_that_was_rotated_within_an_hour_are_added(case: Case) -> None:
    place(case.evidence, 1, f"{LOG}.1", lines(TIMES[:3]))
    place(case.evidence, 1, LOG, lines(TIMES[3:6]))
    case.run()
    assert list(requests(case.output).values()) == [6]  # all of the first hour
    place(case.evidence, 1, LOG, lines(TIMES[3:12]))
    case.run()
    assert list(requests(case.output).values()) == [6, 6]  # by hour


def test_the_same_log_of_two_inputs_counts_once(case: Case, tmp_path: Path) -> None:
    place(case.evidence, 1, LOG, lines(TIMES))
    shutil.copytree(case.evidence, tmp_path / "again")
    run(case.logs, case.output, [case.evidence, tmp_path / "again"])
    assert (sum(requests(case.output).values()), verdict(case.output)) == (12, "blocked")


def test_an_hour_with_more_senders_than_memory_has_room_for_keeps_every_version(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_api_usage, "MAX_GROUPS", 4)
    for part in range(3):
        clients = range(part * 3, part * 3 + 3)  # nine clients in all, with one request each
        text = b"".join(lines([TIMES[0] + client], client=f"c{client}", version=client % 2) for client in clients)
        place(case.evidence, 1, f"{LOG}.{part}", text)
    case.run()
    assert_all_are_counted(case)
    os.utime(case.evidence / "orders" / "1" / f"{LOG}.1", ns=(1, 1))
    case.run()  # reads this file again, and merges it with the rows of the first run
    assert_all_are_counted(case)


def assert_all_are_counted(case: Case) -> None:
    """Four senders have room. The others are counted together, without client id (None)."""
    usage = requests(case.output)
    assert len({client for *_, client in usage} - {None}) == 4
    assert {version for _, _, _, version, _ in usage} == {0, 1}
    assert sum(usage.values()) == 9


def test_rows_with_names_of_clients_are_dropped_when_they_are_older_than_the_window(case: Case) -> None:
    everything(case.evidence)
    case.run()
    assert rows(case.output, "client_api_usage")
    assert rows(case.output, "rejected_requests")
    shutil.rmtree(case.evidence / "orders" / "2")
    case.run(at=END + 5 * DAY)
    assert not rows(case.output, "client_api_usage")
    assert not rows(case.output, "rejected_requests")
    assert [row["client_id"] for row in rows(case.output, "client_blockers")] == [None], "by counters"


# --- what cannot be read, and what must not be kept


def test_files_that_are_not_used_have_a_row_with_the_reason(case: Case) -> None:
    place(case.evidence, 1, f"{END // 1000}.prom", b"<html>not found</html>\n")
    place(case.evidence, 1, "yesterday.prom", b"")
    place(case.evidence, 2, f"{LOG}.gz", lines(TIMES))
    damaged = case.evidence / "orders" / "2" / f"{LOG}.gz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    place(case.evidence, 2, f"{LOG}.1", b"no such file\n")
    place(case.evidence, 2, f"{LOG}.2", b"")
    place(case.evidence, 2, "2026-11-23T19-0123456789abcdef.jsonl.gz", b"{}\n")
    case.run()
    reasons = {
        row["file"]: row["text"] for row in rows(case.output, "data_quality") if row["kind"] == "client_evidence"
    }
    assert reasons["yesterday.prom"].startswith("expected TIME.prom")
    assert reasons[f"{END // 1000}.prom"].startswith("has no request counters")
    assert reasons[f"{LOG}.1"] == "it has no request"
    assert f"{LOG}.2" not in reasons
    assert reasons[f"{LOG}.gz"] == "not read to its end: the gzip stream is cut off"
    assert reasons["2026-11-23T19-0123456789abcdef.jsonl.gz"].startswith("it is not a reduced request log")


def test_a_folder_whose_name_is_not_the_id_of_a_broker_is_a_problem(case: Case) -> None:
    (case.evidence / "orders" / "1").rename(case.evidence / "orders" / "kafka-1")
    (problem,) = run(case.logs, case.output, [case.evidence]).problems
    assert problem == "orders/kafka-1: not read: expected the id of the broker as its name"
    assert verdict(case.output) == "unknown"


def test_no_table_has_anything_of_the_body_of_a_request(case: Case) -> None:
    secret = {"saltedPassword": "hunter2-of-a-user"}
    text = plain(TIMES[0], body("ALTER_USER_SCRAM_CREDENTIALS", 0, request=secret))
    place(case.evidence, 1, LOG, f"{text}\n".encode())
    case.run()
    assert len(requests(case.output)) == 1
    assert "hunter2" not in str(tables(case.output))


def test_names_that_clients_choose_are_kept_as_they_are(case: Case) -> None:
    names = ["", "a\x00b", "\ud7ff\U0001f600", "<script>", "'; DROP TABLE", "=cmd|' /C calc'!A0", "x" * 5000, "\u202e"]
    for number, name in enumerate(names):
        place(case.evidence, 1, f"{LOG}.{number}", lines([TIMES[0] + number], client=name))
    case.run()
    assert {key[-1] for key in requests(case.output)} == set(names)


def test_refused_requests_are_counted_by_connection_with_the_clients_that_may_have_sent_them(case: Case) -> None:
    text = "".join(refused(connection(port), time="2026-11-23 22:00:00,000") for port in (1, 2))
    for name in ("server.log", "server.log.1"):
        place(case.evidence, 1, name, text.encode())
    address = connection(1).split("-")[1].rpartition(":")[0]
    place(case.evidence, 1, LOG, lines(TIMES, address=address))
    case.run()
    (row,) = rows(case.output, "rejected_requests")
    assert row["clients"] == [{"client_id": "etl", "principal": "User:etl", "match": "SameAddressAndVersion"}]
    assert (row["address"], row["api"], row["version"], row["connections"]) == (address, *OLD, 2)


# --- the command


def test_the_gate_counts_clients_for_the_releases_of_the_configuration_and_knows_folders_with_evidence_alone(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scrapes(case.evidence, old=5)
    scrapes(case.evidence, cluster="other")
    config, words = tmp_path / "pipeline.yaml", ["pipeline", "gate", "--config", str(tmp_path / "pipeline.yaml")]
    settings = "inputs: [logs]\noutput: out\nspark: {enabled: false}\n"
    config.write_text(f"{settings}clients: {{inputs: [evidence], releases: ['4.1'], window: 2d}}\n")
    monkeypatch.setattr(time, "time", lambda: (END + MINUTE) / 1000)
    assert main(["pipeline", "run", "--config", str(config)]) == Exit.DONE

    def report(release: str) -> Page:
        """The page about all clusters."""
        pages = tmp_path / "pages"
        assert main(["pipeline", "report", *words[2:], "--release", release, "--html", str(pages)]) == Exit.DONE
        return Page((pages / "fleet.html").read_text())

    def answer(release: str) -> dict[str, tuple[str, str | None]]:
        """By cluster, its verdict and that on its clients."""
        capsys.readouterr()
        main([*words, "--release", release])
        document = json.loads(capsys.readouterr().out)
        return {each["cluster"]: (each["verdict"], each["clients"]) for each in document["clusters"]}

    assert answer("4.1") == {"orders": ("blocked", "blocked"), "other": ("unknown", "unknown")}
    assert answer("3.9")["orders"] == ("unknown", "unknown"), "a release that the configuration does not name"
    assert {clients for _, clients in answer("3.8").values()} == {None}, "no API version was removed until then"
    (head, cluster, _) = report("3.9").rows_under("Which cluster")
    assert dict(zip(head, cluster, strict=True)).items() >= {"3.9": "Unknown", "4.1": "Blocked"}.items()
    (_, cluster, _) = report("3.9").rows_under("The blocked ones first")
    assert cluster[3] == "not known", "the release that it can reach"
    capsys.readouterr()
    assert main([*words, "--release", "3.9", "-o", "text"]) == Exit.UNREACHABLE
    remedy = 'its clients are not judged for 3.9; add "3.9" to clients.releases, then run again'
    assert f"orders: unknown: {remedy}" in capsys.readouterr().out
    assert main([*words, "--release", "4.1", "-o", "text"]) == Exit.BLOCKED
    assert "clients use Produce v2, which this release lacks" in capsys.readouterr().out
    config.write_text(settings)
    assert answer("4.1")["orders"] == ("blocked", "blocked"), "the last run judged them"
    assert "other" in report("4.1").text
    assert main(["pipeline", "run", *words[2:]]) == Exit.DONE
    assert {clients for _, clients in answer("4.1").values()} == {None}, "the last run did not"


def test_run_report_and_remove_use_the_evidence_of_the_configuration_and_names_in_pages_are_escaped(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    place(case.evidence, 1, LOG, lines(TIMES, client=evil))
    (tmp_path / "owners.yaml").write_text("owners: [{team: Shop, principal: 'User:etl'}]\n")
    config = tmp_path / "pipeline.yaml"
    clients = "{inputs: [evidence], releases: ['4.1'], window: 2d, owners: owners.yaml}"
    config.write_text(f"inputs: [logs]\noutput: out\nspark: {{enabled: false}}\nclients: {clients}\n")
    monkeypatch.setattr(time, "time", lambda: (END + MINUTE) / 1000)
    assert main(["pipeline", "run", "--config", str(config)]) == Exit.DONE
    # Three scrapes of each of the two brokers, and the request log.
    assert "7 files with evidence about clients" in capsys.readouterr().out
    assert verdict(case.output) == "blocked"
    words = ["pipeline", "report", "--config", str(config), "--release", "4.1", "--html", str(tmp_path / "pages")]
    assert main(words) == Exit.DONE
    page = (tmp_path / "pages" / "fleet.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert all(text in page for text in ("Clients that would break", "Shop", "Produce v2", "Evidence about clients"))
    # A cluster is removed only after both its metadata logs and its evidence are gone.
    assert main(["pipeline", "remove", "--config", str(config), "--cluster", "orders"]) == Exit.BLOCKED
    shutil.rmtree(case.logs / "orders")
    logs(case.logs, "other")
    assert main(["pipeline", "remove", "--config", str(config), "--cluster", "orders"]) == Exit.BLOCKED
    assert "evidence: logs of cluster 'orders' are here" in capsys.readouterr().err
    shutil.rmtree(case.evidence)
    scrapes(case.evidence, cluster="other")
    assert main(["pipeline", "remove", "--config", str(config), "--cluster", "orders"]) == Exit.DONE
    assert not any(tables(case.output).values())
