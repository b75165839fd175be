"""`clients check --prometheus`: a verdict from a URL alone, and one clear line for each mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.words import format_time
from tests.clients.fake_prometheus import FakePrometheus, ScrapedTarget, target_of
from tests.clients.histories import DAY, History, Process
from tests.clients.test_command import registered
from tests.clients.test_prometheus_evidence import labelled
from tests.clients.test_prometheus_http import answering_with, reply, request_of, server
from tests.clients.test_prometheus_soundness import relabelled

NOW = 29_900_000
"""The end of the window, in minutes since 1970."""
QUIET = History({number: (Process(NOW - 40 * DAY, NOW),) for number in (1, 2, 3)})
USED = History({**QUIET.brokers, 2: (Process(NOW - 40 * DAY, NOW, uses=(NOW - 3 * DAY,)),)})
"""Three days before the end, broker 2 was sent a removed version."""


@contextmanager
def serving(targets: Sequence[ScrapedTarget]) -> Iterator[str]:
    """The URL of a Prometheus with these targets."""
    prometheus = FakePrometheus(targets)

    def serve(line) -> None:  # type: ignore[no-untyped-def]  # a socket
        while request := request_of(line):
            head, _, form = request.partition(b"\r\n\r\n")
            line.sendall(reply(prometheus(head.split(b" ")[1].decode(), form).body))

    with server(serve) as port:
        yield f"http://127.0.0.1:{port}"


def targets(history: History = QUIET) -> list[ScrapedTarget]:
    return [target_of(history, broker) for broker in history.brokers]


def run(*words: str) -> int:
    """The exit code of a check for release 4.1."""
    return main(["clients", "check", "--release", "4.1", "--at", format_time(NOW * MINUTE), *words])


@pytest.fixture
def log_of_three(tmp_path: Path) -> list[str]:
    """Flags for a log in which three brokers are registered."""
    return ["--log", str(registered(tmp_path / "log", 1, 2, 3, until=NOW * MINUTE, since=(NOW - 40 * DAY) * MINUTE))]


def test_a_url_alone_blocks_where_an_old_client_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(targets(USED)) as url:
        assert run("--prometheus", url) == Exit.BLOCKED
    assert "Produce v2" in capsys.readouterr().out


def test_a_cluster_of_prometheus_without_old_clients_is_ready(
    capsys: pytest.CaptureFixture[str], log_of_three: list[str]
) -> None:
    with serving(targets()) as url:
        assert run("--prometheus", url, "-o", "json", *log_of_three) == Exit.DONE
        document = json.loads(capsys.readouterr().out)
        assert (document["verdict"], document["source"], document["notRead"]) == ("Ready", url, [])
        assert run("--prometheus", url, "-o", "html", *log_of_three) == Exit.DONE


def test_a_target_whose_samples_prometheus_dropped_is_named_and_not_used(
    capsys: pytest.CaptureFixture[str], log_of_three: list[str]
) -> None:
    first, *others = targets(USED)
    # The rule drops the counter of version 2 at broker 2, which is the removed version of USED.
    with serving([first, relabelled("2")(others[0]), *others[1:]]) as url:
        assert run("--prometheus", url, *log_of_three) == Exit.UNREACHABLE
    captured = capsys.readouterr()
    assert "broker 2, target kafka-2:9404: not used: it exposed 10 samples, of which Prometheus has 9" in captured.err
    assert "no scrape of it" in captured.out


def test_ids_of_targets_that_no_registered_broker_has_are_reported_if_a_registered_broker_has_no_target(
    capsys: pytest.CaptureFixture[str], log_of_three: list[str]
) -> None:
    moved = [labelled(target, broker_id=str(number)) for number, target in enumerate(targets())]
    with serving(moved) as url:
        assert run("--prometheus", url, *log_of_three) == Exit.UNREACHABLE
    text = "ids in Prometheus that no registered broker has: 0; check --selector and --broker-label"
    assert text in capsys.readouterr().err


def test_a_flag_names_the_label_that_has_the_broker_id(
    capsys: pytest.CaptureFixture[str], log_of_three: list[str]
) -> None:
    pods = [
        replace(target, labels={"job": "kafka", "instance": f"10.0.0.{number}:9404", "pod": f"kafka-{number}"})
        for number, target in enumerate(targets(), 1)
    ]
    with serving(pods) as url:
        assert run("--prometheus", url, *log_of_three) == Exit.USAGE
        message = capsys.readouterr().err
        assert 'such as those of {instance="10.0.0.1:9404", job="kafka", pod="kafka-1"}; use --broker-label' in message
        pattern = ["--broker-label", "pod", "--broker-pattern", ".*-([0-9]+)"]
        assert run("--prometheus", url, *pattern, *log_of_three) == Exit.DONE


def test_targets_of_several_clusters_end_with_the_label_to_select_one_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, *others = targets()
    with serving([labelled(first, namespace="a\x1b[2J"), *(labelled(each, namespace="b") for each in others)]) as url:
        assert run("--prometheus", url) == Exit.USAGE
    message = capsys.readouterr().err
    assert "several clusters: namespace is a" in message
    assert "use --selector for one of them" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--evidence", "."], Exit.USAGE, "expected either --prometheus URL or --evidence DIR"),
        (["--selector", "namespace=kafka"], Exit.USAGE, "--selector: expected matchers"),
        (["--cluster", "north"], Exit.USAGE, "--cluster is for --evidence; use --selector"),
        (["--broker-pattern", "(.*)"], Exit.USAGE, "--broker-pattern requires --broker-label LABEL"),
        (["--broker-label", "pod", "--broker-pattern", ".*"], Exit.USAGE, "with one group"),
        (["--broker-label", "pod", "--broker-pattern", "("], Exit.USAGE, "--broker-pattern: missing )"),
        (["--prometheus", "http://u:hunter2@p"], Exit.USAGE, "do not belong into a URL"),
        (["--prometheus-config", "nowhere"], Exit.USAGE, "--prometheus-config: nowhere: No such file"),
        ([], Exit.UNREACHABLE, "answers 503: is it the URL of a Prometheus?"),
    ],
)
def test_an_invalid_flag_or_server_is_named_in_the_last_line_without_a_secret(
    capsys: pytest.CaptureFixture[str], words: Sequence[str], code: Exit, message: str
) -> None:
    with server(answering_with(reply(b"hunter2", b"", b"503 Service Unavailable"))) as port:
        assert run("--prometheus", f"http://127.0.0.1:{port}", *words) == code
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[-1]
    assert "hunter2" not in "".join(lines)


def test_a_flag_for_prometheus_is_refused_without_a_url_of_prometheus(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--evidence", ".", "--selector", 'a="b"') == Exit.USAGE
    assert "--selector requires --prometheus URL" in capsys.readouterr().err
