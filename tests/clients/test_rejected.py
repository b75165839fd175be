"""`kafkafeatures clients rejected`: requests that brokers of Kafka 4.x refused, and who sent them.

A server log names the connection of a refused request and not its client. A client that used the same connection in the
request log is the sender; others at the same address are guesses.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files.logs.server_log import read_rejections
from kafkafeatures.core.clients.rejections import RefusedRequest, RejectedRequests

ERRORS = "org.apache.kafka.common.errors."
LOGGER = " (kafka.network.Processor)"
PREFIX = "[2026-11-28 03:21:55,936] ERROR Exception while processing request from"
RECEIVED, INVALID = "Received request", "InvalidRequestException"


def connection(port: int = 39130, index: str = "1-2", address: str = "10.0.0.7") -> str:
    """The name of a connection in both logs: address of the broker, of the client, and a number."""
    return f"10.0.0.1:9092-{address}:{port}-{index}"


def refused(name: str, api: str = "0 (Produce)", version: int = 2, *, time: str = "2026-11-28 03:21:55,936") -> str:
    """The two events that a broker of Kafka 4.1 logs for one refused request. `name`: of the connection."""
    reason = f"{ERRORS}UnsupportedVersionException: {RECEIVED} for api with key {api} and unsupported version {version}"
    closing = f"[{time}] ERROR Closing socket for {name} because of error{LOGGER}\n{reason}\n"
    return closing + f"[{time}] ERROR Exception while processing request from {name}{LOGGER}\n{reason}\n"


OTHERS = (
    "[2026-11-28 03:21:54,000] INFO [BrokerServer id=1] Transition to STARTED (kafka.server.BrokerServer)\n"
    "[2026-11-28 03:21:54,100] ERROR Exception while processing request from "
    f"{connection(1)}{LOGGER}\njava.lang.IllegalStateException: Channel removed from selector\n"
    "\tat kafka.network.Processor.processCompletedReceives(SocketServer.scala:1)\n"
)


def logged(
    name: str, client: str, version: int = 2, *, time: str = "2026-11-28 03:21:50,000", api: str = "PRODUCE"
) -> str:
    """A line of the request log. `name`: of the connection."""
    header = (
        f'{{"requestApiKey":0,"requestApiVersion":{version},"correlationId":3,"clientId":{json.dumps(client)},'
        f'"requestApiKeyName":"{api}"}}'
    )
    return (
        f'[{time}] DEBUG Completed request:{{"isForwarded":false,"requestHeader":{header},"request":{{}},'
        f'"response":{{}},"connection":"{name}","totalTimeMs":1.0,"principal":"User:etl","listener":"CLIENT",'
        '"clientInformation":{"softwareName":"unknown","softwareVersion":"unknown"}} (kafka.request.logger)\n'
    )


def rejections(text: str, size: int = 1 << 20) -> list[RefusedRequest]:
    """The refusals in a server log. `size`: bytes of each block that is read."""
    data = text.encode()
    return list(read_rejections(data[begin : begin + size] for begin in range(0, len(data), size)))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Function that runs the command on a server log and a request log, and returns the rows of its document."""

    def go(server: str, code: Exit, requests: str = "") -> list[dict[str, Any]]:
        (tmp_path / "server.log").write_text(server)
        (tmp_path / "request.log").write_text(requests)
        words = ["clients", "rejected", str(tmp_path / "server.log"), "-o", "json"]
        assert main([*words, "--request-logs", str(tmp_path / "request.log")]) == code
        document = json.loads(capsys.readouterr().out)
        assert document["kind"] == "RejectedRequests"
        rows: list[dict[str, Any]] = document["rejected"]
        return rows

    return go


def joins(row: dict[str, Any]) -> dict[str, str]:
    """The evidence by which each client of a row is named."""
    return {client["clientId"]: client["join"] for client in row["clients"]}


# --- the server log ---


def test_each_refused_connection_counts_once_by_address_api_and_version(run: Any) -> None:
    text = OTHERS + refused(connection(1)) + refused(connection(2), time="2026-11-28 03:23:21,078")
    text += refused(connection(3), "2 (ListOffsets)", 0) + refused(connection(1, address="0:0:0:0:0:0:0:1"))
    rows = run(text, Exit.BLOCKED)
    assert [(row["address"], row["api"], row["version"], row["connections"]) for row in rows] == [
        ("10.0.0.7", "Produce", 2, 2),
        ("0:0:0:0:0:0:0:1", "Produce", 2, 1),
        ("10.0.0.7", "ListOffsets", 0, 1),
    ]
    assert (rows[0]["first"], rows[0]["last"]) == ("2026-11-28T03:21:55.936", "2026-11-28T03:23:21.078")


@pytest.mark.parametrize(
    ("reason", "api", "version"),
    [
        (f"{INVALID}: {RECEIVED} for disabled api with key 4 (LeaderAndIsr) and version 0", "LeaderAndIsr", 0),
        (f"{INVALID}: {RECEIVED} api key LIST_OFFSETS with version 9 which is not enabled", "ListOffsets", 9),
        (
            "InvalidRequestException: Error parsing request header. Our best guess of the apiKey is: 9999\n"
            "Caused by: java.lang.IllegalArgumentException: Unexpected api key: 9999",
            "api 9999", -1,
        ),
        ("InvalidRequestException: Unknown API key 77", "api 77", -1),
    ],
)  # fmt: skip
def test_refusals_in_the_wording_of_other_releases_are_recognised(reason: str, api: str, version: int) -> None:
    text = f"{PREFIX} {connection()}{LOGGER}\n{ERRORS}{reason}\n"
    assert [(each.api, each.version) for each in rejections(text)] == [(api, version)]


@pytest.mark.parametrize(
    "layout",
    [
        "[{time}] ERROR {message} (kafka.network.Processor)\n{error}\n",
        "2026-11-28 03:21:55 ERROR [data-plane-kafka-network-thread-1] Processor:76 - {message}\n{error}\n",
        "2026-11-28T09:00:00.1Z stdout F [{time}] ERROR {message}\n2026-11-28T09:00:00.1Z stdout F {error}\n",
        '{{"log":"[{time}] ERROR {message} (x)\\n","stream":"stdout"}}\n{{"log":"{error}\\n","stream":"stdout"}}\n',
        '{{"instant":"{time}","level":"ERROR","message":"{message}","thrown":{{"message":"{error}"}}}}\n',
    ],
)
def test_a_refusal_is_recognised_in_any_layout(layout: str) -> None:
    message = f"Exception while processing request from {connection()}"
    error = "Received request for api with key 0 (Produce) and unsupported version 2"
    (rejection,) = rejections(layout.format(time="2026-11-28 03:21:55,936", message=message, error=error))
    assert (rejection.connection, rejection.api, rejection.version) == (connection(), "Produce", 2)
    assert rejection.time is not None
    assert rejection.time // 1000 == 1795836115, "2026-11-28 03:21:55, to the second"


def test_a_refusal_is_not_joined_with_the_reason_of_another_one() -> None:
    without_reason = f"{PREFIX} {connection(1)}{LOGGER}\n"
    assert {each.connection for each in rejections(without_reason + refused(connection(2)))} == {connection(2)}


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 6000), st.binary(max_size=300))
def test_refusals_do_not_depend_on_the_size_of_the_blocks_that_are_read(
    ports: list[int], size: int, noise: bytes
) -> None:
    text = noise.decode(errors="replace") + "".join(OTHERS + refused(connection(port)) for port in ports)
    whole = rejections(text)
    assert rejections(text, size) == whole
    assert {each.connection for each in whole} == {connection(port) for port in ports}


@given(st.integers(0, 2000))
def test_a_truncated_log_has_only_refusals_that_the_whole_log_has(end: int) -> None:
    text = OTHERS + refused(connection(1)) + refused(connection(2), version=13)
    assert set(rejections(text[:end])) <= set(rejections(text))


def test_a_line_of_300_mebibytes_is_read_in_bounded_memory() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"[2026-11-28 03:21:55,936] ERROR "
        yield from (b"x" * (1 << 20) for _ in range(300))
        yield b"\xff\xfe" + refused(connection()).encode()

    tracemalloc.start()
    assert len(list(read_rejections(blocks()))) == 2, "both events of the refusal behind the long line"
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_the_number_of_stored_connections_and_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafeatures.core.clients.rejections.MAX_CONNECTIONS", 100)
    monkeypatch.setattr("kafkafeatures.core.clients.rejections.MAX_USES", 10)
    requests = RejectedRequests()
    for port in range(1000):
        rejection = RefusedRequest(
            connection(port, address=f"10.0.0.{port % 50}"), f"10.0.0.{port % 50}", "Produce", 2, port
        )
        requests.add([rejection, rejection])
    uses = requests.uses({})
    # 100 connections are stored; 50 addresses are 10 rows, and one for all others, which has the most connections.
    assert (len(requests.connections), len(uses), uses[0].address) == (100, 11, "other")
    assert sum(use.connections for use in uses) == 1000


# --- the client of a refused connection ---


def test_a_client_is_identified_by_its_connection(run: Any) -> None:
    requests = logged(connection(), "app-1", 3, api="API_VERSIONS") + logged(connection(2), "app-2", 9)
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert row["clients"] == [
        {
            "clientId": "app-1", "principal": "User:etl", "software": None,
            "join": "Connection", "isGuess": False, "connections": 1,
        }
    ]  # fmt: skip


def test_a_client_at_the_same_address_is_a_guess_unless_another_one_there_sent_the_refused_version(run: Any) -> None:
    others = logged(connection(5), "new", 9) + logged(connection(6, address="10.0.0.8"), "elsewhere", 2)
    (row,) = run(refused(connection()), Exit.BLOCKED, others)
    assert joins(row) == {"new": "SameAddress"}
    assert row["clients"][0]["isGuess"] is True
    (row,) = run(refused(connection()), Exit.BLOCKED, others + logged(connection(7), "old", 2))
    assert joins(row) == {"old": "SameAddressAndVersion"}


def test_a_connection_that_two_clients_used_identifies_neither_client(run: Any) -> None:
    requests = logged(connection(), "a", 9) + logged(connection(), "b", 9)
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert joins(row) == {"a": "SameAddress", "b": "SameAddress"}


def test_a_connection_that_was_used_after_the_refusal_does_not_identify_the_client(run: Any) -> None:
    requests = logged(connection(), "later", 9, time="2026-11-28 04:00:00,000")
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert joins(row) == {"later": "SameAddress"}


def test_refused_connections_without_a_client_may_be_of_any_client_at_the_address(run: Any) -> None:
    """Client "other" sent the refused version from the same address, over another connection."""
    requests = logged(connection(1), "known", 9) + logged(connection(9), "other", 2)
    (row,) = run(refused(connection(1)) + refused(connection(2)), Exit.BLOCKED, requests)
    assert joins(row) == {"known": "Connection", "other": "SameAddressAndVersion"}
    (row,) = run(refused(connection(1)), Exit.BLOCKED, requests)
    assert joins(row) == {"known": "Connection"}


def test_reduced_request_logs_name_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reduced logs have no connections any more, so a client is at best a guess by address and version."""
    (tmp_path / "server.log").write_text(refused(connection()))
    (tmp_path / "request.log").write_text(logged(connection(), "app", 2))
    assert (
        main(["clients", "reduce", "--broker", "1", "--to", str(tmp_path / "reduced"), str(tmp_path / "request.log")])
        == 0
    )
    capsys.readouterr()
    words = [
        "clients",
        "rejected",
        str(tmp_path / "server.log"),
        "--request-logs",
        str(tmp_path / "reduced"),
        "-o",
        "json",
    ]
    assert main(words) == Exit.BLOCKED
    (row,) = json.loads(capsys.readouterr().out)["rejected"]
    assert joins(row) == {"app": "SameAddressAndVersion"}


# --- the command ---


def test_a_log_without_refusals_is_reported_as_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.log"
    path.write_text(OTHERS)
    assert main(["clients", "rejected", str(path)]) == Exit.DONE
    assert "This proves nothing" in capsys.readouterr().out


def test_a_log_that_is_given_plain_and_compressed_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, packed = tmp_path / "server.log.1", tmp_path / "server.log.1.gz"
    plain.write_text(refused(connection(1)) + refused(connection(2)))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert main(["clients", "rejected", str(packed), str(plain), "-o", "json"]) == Exit.BLOCKED
    (row,) = json.loads(capsys.readouterr().out)["rejected"]
    assert row["connections"] == 2


def test_no_refusal_in_a_truncated_log_is_unknown_and_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(OTHERS.encode())[:-20])
    assert main(["clients", "rejected", str(path)]) == Exit.UNREACHABLE
    assert f"{path}: not read to its end" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_log_that_cannot_be_opened_gives_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clients", "rejected", str(tmp_path / name)]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_control_characters_and_formulas_of_client_ids_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, requests = tmp_path / "server.log", tmp_path / "request.log"
    server.write_text(refused(connection()))
    requests.write_text(logged(connection(), '=cmd|"/c calc"!A1\x1b]52;c;x\x07\n'))
    words = ["clients", "rejected", str(server), "--request-logs", str(requests)]
    main(words)
    assert "\x1b" not in capsys.readouterr().out
    main([*words, "-o", "csv"])
    head, row = csv.reader(io.StringIO(capsys.readouterr().out))
    client_id = dict(zip(head, row, strict=True))["client_id"]
    assert client_id.startswith("'=cmd|")
    assert client_id.isprintable()
