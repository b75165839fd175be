"""Senders of the versions that a release removed: named by request logs, which never improve a verdict."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files.logs.reduced import find_files
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse, SenderKind, senders_of, version_uses
from kafkafeatures.core.clients.verdict import ClientVerdict, check_clients
from tests.clients.histories import BEGIN, END
from tests.clients.request_lines import body, plain
from tests.clients.test_command import AT, DAY, HOUR, OLD, QUIET, at, check, registered, scrape, shown
from tests.clients.test_soundness import BROKERS, damaged, histories, whole

WINDOW = EvidenceWindow(AT - 35 * DAY, AT)
TABLE = client_targets()


def use(name: str = "Produce", version: int = 2, client: str | None = "etl", **more: Any) -> LoggedUse:
    """A use of a removed version within the window, by a request log that shows all requests (`shows_all`)."""
    fields: dict[str, Any] = {
        "broker": 1, "name": name, "version": version, "client_id": client, "principal": "User:etl",
        "address": "10.1.2.3", "software": "", "is_forwarded": False, "requests": 5, "first": AT - HOUR, "last": AT - 9,
        "shows_all": True,
    }  # fmt: skip
    return LoggedUse(**{**fields, **more})


def senders(*uses: LoggedUse, owners: tuple[ClientOwner, ...] = ()) -> Any:
    """The senders of versions that Kafka 4.1 lacks."""
    return senders_of(uses, "4.1", TABLE, WINDOW, owners)


def test_senders_of_removed_versions_are_listed_by_their_number_of_requests() -> None:
    first, second = senders(
        use("Fetch", 3, last=AT - 5), use(), use("Produce", 9), use(client="loud", requests=70, broker=2),
    )  # fmt: skip
    assert (first.client_id, first.requests) == ("loud", 70)
    assert (second.client_id, second.versions, second.requests, second.last) == (
        "etl", (("Fetch", 3), ("Produce", 2)), 10, AT - 5,
    )  # fmt: skip


def test_a_use_outside_of_the_window_has_no_sender() -> None:
    assert senders(use(last=WINDOW.begin - 1), use(first=AT + 1, last=AT + 9)) == ()
    assert len(senders(use(first=WINDOW.begin - HOUR, last=WINDOW.begin + 1))) == 1


@pytest.mark.parametrize(
    ("uses", "remedy"),
    [
        ([use(client="sarama")], "raise the configured version (sarama: Config.Version), or upgrade the library"),
        ([use(client="kafka-python-1.4.7")], "raise the configured version (kafka-python: api_version), or upgrade"),
        ([use(software="librdkafka 1.0.0")], "upgrade the library (librdkafka)"),
        (
            [use()],
            "raise its configured version (sarama: Config.Version, kafka-python: api_version), as it asks for none",
        ),
        ([use(), use("ApiVersions", 0)], "upgrade the client library"),
        ([use(shows_all=False)], "upgrade the client library"),
    ],
    ids=[
        "a library named by the client id, whose version is a setting", "one with its version in the client id",
        "a library named by its software name", "an unknown client that does not ask for API versions",
        "an unknown client that asks for API versions", "an unknown client of which not all requests are logged",
    ],
)  # fmt: skip
def test_the_remedy_depends_on_the_library_of_the_client(uses: list[LoggedUse], remedy: str) -> None:
    (sender,) = senders(*uses)
    assert sender.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("logged", "kind"),
    [
        (use(client="broker-2-fetcher-0"), SenderKind.BROKER),
        (use("CreateTopics", 1, is_forwarded=True), SenderKind.FORWARDED),
        (use(client=None, principal=None, address=None), SenderKind.UNNAMED),
    ],
    ids=["a fetcher of a broker", "forwarded by a broker", "no name"],
)
def test_removed_versions_of_brokers_forwarded_requests_and_unnamed_clients_block_too(
    logged: LoggedUse, kind: SenderKind
) -> None:
    (sender,) = senders(logged, owners=(ClientOwner("everybody"),))
    assert sender.kind is kind
    outcome = check_clients("4.1", TABLE, (), BrokerRegistry({1}), WINDOW, logged=version_uses([logged], WINDOW))
    assert outcome.verdict is ClientVerdict.BLOCKED


def test_the_owner_is_the_first_whose_patterns_for_client_id_and_principal_both_match() -> None:
    owners = (
        ClientOwner("other", client_id="etl", principal="User:x"),
        ClientOwner("etl team", "etl*"),
        ClientOwner("all"),
    )
    assert senders(use(), owners=owners)[0].owner == "etl team"
    assert senders(use(client="x"), owners=owners)[0].owner == "all"
    assert senders(use())[0].owner == ""


def test_a_sender_has_the_number_of_client_ids_at_its_address() -> None:
    """Many client ids of one principal at one address may be clients behind a proxy."""
    others = [use("Produce", 9, f"client-{number}") for number in range(11)]
    assert senders(use(), *others)[0].near == 12


@settings(max_examples=40)
@given(st.data())
def test_request_logs_never_improve_a_verdict(data: st.DataObject) -> None:
    scrapes = data.draw(damaged(whole(data.draw(histories()))))
    window = EvidenceWindow(BEGIN * MINUTE, END * MINUTE)
    times = st.integers(window.begin - DAY, window.end + DAY)
    logged = st.builds(
        use, st.sampled_from(("Produce", "Fetch", "Odd")), st.integers(0, 20), first=times, last=times,
    )  # fmt: skip
    uses = version_uses(data.draw(st.lists(logged, max_size=5)), window)
    order = (ClientVerdict.READY, ClientVerdict.UNKNOWN, ClientVerdict.BLOCKED)
    without = check_clients("4.1", TABLE, scrapes, BrokerRegistry(set(BROKERS)), window)
    outcome = check_clients("4.1", TABLE, scrapes, BrokerRegistry(set(BROKERS)), window, logged=uses)
    assert order.index(outcome.verdict) >= order.index(without.verdict)


@pytest.fixture
def clients(tmp_path: Path) -> Path:
    """A folder with scrapes of three brokers that no old client used, a metadata log, and owners."""
    for number in (1, 2, 3):
        scrape(tmp_path / "scrapes", f"{number}", QUIET)
    registered(tmp_path / "log", 1, 2, 3)
    (tmp_path / "owners.yaml").write_text("owners:\n- {team: Payments, clientId: 'pay-*', principal: 'User:pay'}\n")
    return tmp_path


CHECK = ("clients", "check", "--release", "4.1", "--evidence")
HOSTILE = "pay-\x1b[2J<script>alert(1)</script>\u202e"


def reduced(folder: Path, *texts: str) -> None:
    """Reduce a request log of broker 1 with these requests, an hour before the end of the window."""
    log = folder / "kafka-request.log"
    log.write_text("".join(plain(AT - HOUR, text) + "\n" for text in texts))
    assert main(["clients", "reduce", "--broker", "1", "--to", str(folder / "reduced"), str(log)]) == Exit.DONE


def words(folder: Path) -> list[str]:
    """Flags for the log, the reduced request logs and the owners in a folder."""
    names = ("--log", "log"), ("--request-logs", "reduced"), ("--owners", "owners.yaml")
    return [word for flag, name in names for word in (flag, str(folder / name))]


def test_a_removed_version_in_a_log_blocks_where_counters_show_none(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduced(clients, body(client="pay-7", principal="User:pay"), body("FETCH", 11, "new"))
    capsys.readouterr()
    assert check(capsys, clients / "scrapes", Exit.DONE, "--log", str(clients / "log"))["senders"] is None
    document = check(capsys, clients / "scrapes", Exit.BLOCKED, *words(clients))
    assert [(entry["api"], entry["version"], entry["brokers"]) for entry in document["uses"]] == [("Produce", 2, [1])]
    (sender,) = document["senders"]
    assert (sender["clientId"], sender["principal"], sender["owner"]) == ("pay-7", "User:pay", "Payments")
    assert (sender["addresses"], sender["requests"]) == (["10.1.2.3"], 1)


def test_a_use_in_both_counters_and_request_logs_is_listed_once(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrape(clients / "scrapes", "1", OLD)
    reduced(clients, body(), body("FETCH", 3))
    capsys.readouterr()
    document = check(capsys, clients / "scrapes", Exit.BLOCKED, *words(clients))
    # By one scrape, Produce v2 may have been used before the window. The log shows when, and one request of it.
    assert [(entry["api"], entry["kind"], entry["requests"]) for entry in document["uses"]] == [
        ("Fetch", "Removed", 1), ("Produce", "Removed", 1),
    ]  # fmt: skip


def test_text_and_page_show_the_senders_without_control_characters_or_markup(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduced(clients, body(client=HOSTILE, principal="User:pay"))
    capsys.readouterr()
    text = shown(capsys, clients / "scrapes", *words(clients))
    for expected in ("Who sends them", "Produce v2", "10.1.2.3", "Payments", "api_version"):
        assert expected in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    page = shown(capsys, clients / "scrapes", *words(clients), "-o", "html")
    assert "Who sends them" in page
    assert '<span class="removed"' in page
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_a_csv_has_a_row_for_each_client_api_and_version_and_no_formula(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduced(
        clients, body(client="=HYPERLINK(1)", principal="User:pay"), body("FETCH", 11, '@a,"b\t'), body(client="\t=x")
    )
    capsys.readouterr()
    assert main([*CHECK, str(clients / "scrapes"), *words(clients), "--at", at(), "-o", "csv"]) == Exit.BLOCKED
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert [row[0] for row in rows] == ["' =x", "'=HYPERLINK(1)", "'@a,\"b "]
    assert [row[head.index("on_release")] for row in rows] == ["removed", "removed", "accepted"]


def test_a_csv_without_request_logs_has_a_row_for_each_version_with_its_brokers(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrape(clients / "scrapes", "1", OLD)
    scrape(clients / "scrapes", "2", OLD)
    command = [*CHECK, str(clients / "scrapes"), "--log", str(clients / "log"), "--at", at(), "-o", "csv"]
    assert main(command) == Exit.UNREACHABLE
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))[1:]
    assert [row[:4] for row in rows] == [["Produce", "2", "removed", "1 2"]]


def test_a_broken_reduced_file_is_named_and_does_not_change_the_verdict(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduced(clients, body())
    capsys.readouterr()
    (file,) = find_files(clients / "reduced")
    file.write_bytes(file.read_bytes()[:-9])
    document = check(capsys, clients / "scrapes", Exit.DONE, *words(clients))
    (reason,) = document["notRead"]
    assert reason.endswith("it is cut off or damaged; make it again with clients reduce")
    odd = {"kind": "RequestLogHour", "format": 1, "broker": 1, "hour": "x", "first": "", "last": "", "lines": 0,
           "size": 0, "groups": 0, "addresses": "full", "levels": {}, "columns": []}  # fmt: skip
    file.write_bytes(gzip.compress(json.dumps(odd).encode()))
    (reason,) = check(capsys, clients / "scrapes", Exit.DONE, *words(clients))["notRead"]
    assert "it is not a reduced request log" in reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("owners: [{team: a, client: x}]", "unknown field `client`"),
        ("owners: {a: b}", "Expected `array`"),
        ("teams: []", "unknown field `teams`"),
        ("owners: [{clientId: x}]", "missing required field `team`"),
        ("owners: [\x00", "special characters are not allowed"),
        ("[" * 5_000, "expected owners:"),
    ],
)
def test_an_invalid_file_of_owners_gives_one_line(
    text: str, reason: str, clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduced(clients, body())
    (clients / "owners.yaml").write_text(text)
    capsys.readouterr()
    assert main([*CHECK, str(clients / "scrapes"), *words(clients)]) == Exit.USAGE
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_a_folder_without_reduced_logs_is_refused_with_a_remedy(
    clients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clients / "reduced").mkdir()
    assert main([*CHECK, str(clients / "scrapes"), *words(clients)]) == Exit.USAGE
    assert "no reduced request logs in it; make them with clients reduce" in capsys.readouterr().err
