"""`kafkafeatures clients rejected`: what brokers of Kafka 4.x refused, from their server logs, and who it was."""

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

from kafkafeatures.cli.clients.server_log import read_rejections
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.clients.rejections import RefusedRequest, RejectedRequests

ERRORS = "org.apache.kafka.common.errors."
LOGGER = " (kafka.network.Processor)"
MARKER = "[2026-11-28 03:21:55,936] ERROR Exception while processing request from"
RECEIVED, INVALID = "Received request", "InvalidRequestException"


def connection(port: int = 39130, index: str = "1-2", address: str = "10.0.0.7") -> str:
    return f"10.0.0.1:9092-{address}:{port}-{index}"


def refused(name: str, api: str = "0 (Produce)", version: int = 2, *, time: str = "2026-11-28 03:21:55,936") -> str:
    """What a broker of Kafka 4.1 writes of one refusal."""
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
    """A line of the request log."""
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
    data = text.encode()
    return list(read_rejections(data[begin : begin + size] for begin in range(0, len(data), size)))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on a server log, and maybe a request log; returns the rows of the document."""

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
def test_the_words_of_other_releases_are_known(reason: str, api: str, version: int) -> None:
    text = f"{MARKER} {connection()}{LOGGER}\n{ERRORS}{reason}\n"
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
    assert rejection.time // 1000 == 1795836115


def test_a_refusal_is_not_joined_with_the_reason_of_another_one() -> None:
    cut = f"[2026-11-28 03:21:54,100] ERROR Exception while processing request from {connection(1)}{LOGGER}\n"
    assert {each.connection for each in rejections(cut + refused(connection(2)))} == {connection(2)}


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 6000), st.binary(max_size=300))
def test_where_a_log_is_cut_into_blocks_does_not_matter(ports: list[int], size: int, noise: bytes) -> None:
    text = noise.decode(errors="replace") + "".join(OTHERS + refused(connection(port)) for port in ports)
    whole = rejections(text)
    assert rejections(text, size) == whole
    assert {each.connection for each in whole} == {connection(port) for port in ports}


@given(st.integers(0, 2000))
def test_a_log_that_is_cut_anywhere_has_no_refusal_that_the_whole_one_has_not(end: int) -> None:
    text = OTHERS + refused(connection(1)) + refused(connection(2), version=13)
    assert set(rejections(text[:end])) <= set(rejections(text))


def test_a_line_of_gigabytes_takes_no_more_memory_than_others() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"[2026-11-28 03:21:55,936] ERROR "
        yield from (b"x" * (1 << 20) for _ in range(300))
        yield b"\xff\xfe" + refused(connection()).encode()

    tracemalloc.start()
    assert len(list(read_rejections(blocks()))) == 2
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_as_many_connections_as_there_are_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafeatures.core.clients.rejections.MAX_CONNECTIONS", 100)
    monkeypatch.setattr("kafkafeatures.core.clients.rejections.MAX_USES", 10)
    requests = RejectedRequests()
    for port in range(1000):
        rejection = RefusedRequest(
            connection(port, address=f"10.0.0.{port % 50}"), f"10.0.0.{port % 50}", "Produce", 2, port
        )
        requests.add([rejection, rejection])
    uses = requests.uses({})
    assert (len(requests.connections), len(uses), uses[0].address) == (100, 11, "other")
    assert sum(use.connections for use in uses) == 1000


# --- who it was ---


def test_a_client_is_identified_by_its_connection(run: Any) -> None:
    requests = logged(connection(), "app-1", 3, api="API_VERSIONS") + logged(connection(2), "app-2", 9)
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert row["clients"] == [
        {
            "clientId": "app-1", "principal": "User:etl", "software": None,
            "join": "Connection", "isGuess": False, "connections": 1,
        }
    ]  # fmt: skip


def test_a_client_at_the_same_address_is_a_guess_and_one_that_sent_the_version_the_better_one(run: Any) -> None:
    others = logged(connection(5), "new", 9) + logged(connection(6, address="10.0.0.8"), "elsewhere", 2)
    (row,) = run(refused(connection()), Exit.BLOCKED, others)
    assert joins(row) == {"new": "SameAddress"}
    assert row["clients"][0]["isGuess"] is True
    (row,) = run(refused(connection()), Exit.BLOCKED, others + logged(connection(7), "old", 2))
    assert joins(row) == {"old": "SameAddressAndVersion"}


def test_a_connection_that_two_clients_used_identifies_neither(run: Any) -> None:
    requests = logged(connection(), "a", 9) + logged(connection(), "b", 9)
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert joins(row) == {"a": "SameAddress", "b": "SameAddress"}


def test_a_connection_that_was_used_after_the_refusal_is_another_one(run: Any) -> None:
    requests = logged(connection(), "later", 9, time="2026-11-28 04:00:00,000")
    (row,) = run(refused(connection()), Exit.BLOCKED, requests)
    assert joins(row) == {"later": "SameAddress"}


def test_connections_that_are_left_over_may_be_of_others_at_the_address(run: Any) -> None:
    requests = logged(connection(1), "known", 9) + logged(connection(9), "other", 2)
    (row,) = run(refused(connection(1)) + refused(connection(2)), Exit.BLOCKED, requests)
    assert joins(row) == {"known": "Connection", "other": "SameAddressAndVersion"}
    (row,) = run(refused(connection(1)), Exit.BLOCKED, requests)
    assert joins(row) == {"known": "Connection"}


def test_reduced_request_logs_name_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_silence_is_said_to_prove_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.log"
    path.write_text(OTHERS)
    assert main(["clients", "rejected", str(path)]) == Exit.DONE
    assert "This proves nothing" in capsys.readouterr().out


def test_a_log_counts_once_also_if_it_is_there_compressed_and_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, packed = tmp_path / "server.log.1", tmp_path / "server.log.1.gz"
    plain.write_text(refused(connection(1)) + refused(connection(2)))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert main(["clients", "rejected", str(packed), str(plain), "-o", "json"]) == Exit.BLOCKED
    (row,) = json.loads(capsys.readouterr().out)["rejected"]
    assert row["connections"] == 2


def test_nothing_in_a_log_that_was_not_read_whole_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(OTHERS.encode())[:-20])
    assert main(["clients", "rejected", str(path)]) == Exit.UNREACHABLE
    assert f"{path}: not read to its end" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_log_that_cannot_be_opened_is_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clients", "rejected", str(tmp_path / name)]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_hostile_client_ids_are_harmless_in_a_terminal_and_a_spreadsheet(
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
