"""`run`: what its flags and their environment variables make of the operator, and what they refuse."""

from __future__ import annotations

import os
import sys
from ipaddress import ip_network

import pytest

from kafkafeatures import app, logs
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.report.notifications import NotificationEvent as Event
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.recorder.recordings import RecorderSettings
from kafkafeatures.notify.settings import NotifySettings
from kafkafeatures.settings import OperatorSettings

MIB = 2**20
LONGEST = "a" * 63


class Started:
    """An operator that only keeps how it was started."""

    def __init__(self) -> None:
        self.settings: list[OperatorSettings] = []
        self.logs: list[tuple[str | None, str]] = []

    def configure(self, kind: str | None, level: str) -> None:
        self.logs.append((kind, level))

    async def run(self, settings: OperatorSettings, *, environment: Environment) -> None:
        self.settings.append(settings)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    for variable in [name for name in os.environ if name.startswith("KAFKAFEATURES_")]:
        monkeypatch.delenv(variable)
    operator = Started()
    monkeypatch.setattr(app, "run", operator.run)
    monkeypatch.setattr(logs, "configure", operator.configure)
    return operator


@pytest.mark.parametrize(
    ("words", "listed", "watched"),
    [
        ((), "", ()),
        ((), "a, b", ("a", "b")),
        ((), " kafka-1 ,, ,a,a,", ("kafka-1", "a")),
        (("--namespace", LONGEST, "--namespace", "0"), "", (LONGEST, "0")),
        (("--namespace", "b"), "a,b", ("b",)),
    ],
    ids=["all", "by the variable", "empty and repeated names", "by flags, longest and shortest name", "flag first"],
)
def test_the_operator_watches_each_configured_namespace_once(
    started: Started, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], listed: str, watched: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KAFKAFEATURES_NAMESPACES", listed)
    assert main(["run", *words]) == 0
    assert started.settings[0].namespaces == watched
    assert started.settings[0].request_namespaces == ()


@pytest.mark.parametrize(("words", "expected"), [((), ("a", "b")), (("--request-namespace", "c"), ("c",))])
def test_requests_on_pods_are_read_in_no_other_namespaces_than_those_that_are_configured(
    started: Started, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KAFKAFEATURES_REQUEST_NAMESPACES", "a, b, a")
    assert main(["run", *words]) == 0
    assert started.settings[0].request_namespaces == expected


@pytest.mark.parametrize(
    ("words", "host", "port"),
    [
        ((), "", 8080),
        (("--listen", ":0"), "", 0),
        (("--listen", "127.0.0.1:9000"), "127.0.0.1", 9000),
        (("--listen", "[::1]:9000"), "::1", 9000),
    ],
)
def test_the_operator_listens_on_all_addresses_without_a_host(
    started: Started, words: tuple[str, ...], host: str, port: int
) -> None:
    assert main(["run", *words]) == 0
    assert (started.settings[0].listen_host, started.settings[0].listen_port) == (host, port)
    assert OperatorSettings().listen_host == ""


def test_the_address_of_the_pod_is_denied_for_connections(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.244.0.7")
    assert main(["run", "--deny-address", "10.1.0.0/16"]) == 0
    assert started.settings[0].denied == (ip_network("10.1.0.0/16"), ip_network("10.244.0.7"))


@pytest.mark.parametrize(
    ("words", "variables", "memory"),
    [
        ((), {}, (64, 256)),
        ((), {"MEMORY_PER_CLUSTER": "32768Ki", "MEMORY_ALL_CLUSTERS": "1Gi"}, (32, 1024)),
        (("--memory-per-cluster", "100Mi"), {"MEMORY_PER_CLUSTER": "32Mi"}, (100, 256)),
        (("--memory-all-clusters", "64Mi"), {"MEMORY_ALL_CLUSTERS": "32Mi"}, (64, 64)),
        (("--memory-per-cluster", "1Gi"), {}, (1024, 1024)),
    ],
    ids=[
        "defaults, in MiB", "by the variables", "one by its flag, the other by default",
        "the limit of all by its flag, not by the variable", "the limit of one above the default of all",
    ],
)  # fmt: skip
def test_memory_limits_come_from_flags_before_the_environment(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    memory: tuple[int, int],
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(f"KAFKAFEATURES_{name}", text)
    assert main(["run", *words]) == 0
    settings = started.settings[0]
    assert (settings.memory_per_cluster / MIB, settings.memory_all_clusters / MIB) == memory


@pytest.mark.parametrize(
    ("words", "variable", "most"),
    [((), "", 2), ((), "7", 7), (("--max-partition-images", "1000"), "7", 1000)],
)
def test_the_limit_of_partition_images_comes_from_the_flag_before_the_environment(
    started: Started, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str, most: int
) -> None:
    monkeypatch.setenv("KAFKAFEATURES_MAX_PARTITION_IMAGES", variable)
    assert main(["run", *words]) == 0
    assert started.settings[0].max_partition_images == most


@pytest.mark.parametrize(
    ("words", "variables", "settings"),
    [
        ((), {"NOTIFY_FORMAT": "slack"}, None),
        ((), {"NOTIFY_URL_FILE": "/u"}, NotifySettings("/u")),
        (
            ("--notify-url-file", "/f", "--notify-event", "Halted", "--notify-format", "teams"),
            {"NOTIFY_URL_FILE": "/u", "NOTIFY_EVENTS": "Stalled", "NOTIFY_FORMAT": "slack", "NOTIFY_SENDER": "prod"},
            NotifySettings("/f", "teams", frozenset({Event.HALTED}), sender="prod"),
        ),
        (
            (),
            {"NOTIFY_URL_FILE": "/u", "NOTIFY_EVENTS": "Stalled, Halted,", "NOTIFY_ALLOW_HTTP": "true"},
            NotifySettings("/u", events=frozenset({Event.STALLED, Event.HALTED}), allow_http=True),
        ),
    ],
    ids=["no URL", "all events", "flags first", "by variables"],
)
def test_people_are_notified_through_the_webhook_whose_url_is_in_a_file(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    settings: NotifySettings | None,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"KAFKAFEATURES_{name}", value)
    assert main(["run", *words]) == 0
    assert started.settings[0].notify == settings


@pytest.mark.parametrize(
    ("words", "variables", "settings"),
    [
        ((), {}, None),
        ((), {"RECORDER_PER_CLUSTER": "2Gi"}, None),
        ((), {"RECORDER_FOLDER": "/r"}, RecorderSettings("/r", 1024 * MIB, 8192 * MIB)),
        (("--recorder-folder", "/f"), {"RECORDER_FOLDER": "/r"}, RecorderSettings("/f", 1024 * MIB, 8192 * MIB)),
        (
            ("--recorder-folder", "/a/../f", "--recorder-per-cluster", "64Mi"),
            {"RECORDER_ALL_CLUSTERS": "128Mi"},
            RecorderSettings("/f", 64 * MIB, 128 * MIB),
        ),
        (
            ("--recorder-folder", "/f", "--recorder-per-cluster", "9Gi"),
            {},
            RecorderSettings("/f", 9216 * MIB, 9216 * MIB),
        ),
        (
            ("--recorder-folder", "/f", "--recorder-all-clusters", "64Mi"),
            {},
            RecorderSettings("/f", 64 * MIB, 64 * MIB),
        ),
    ],
    ids=[
        "no folder", "a limit without a folder", "by the variable, with default limits", "the flag first",
        "limits by flag and variable", "the limit of one above the default of all",
        "the limit of all below the default of one",
    ],
)  # fmt: skip
def test_the_operator_records_logs_only_if_a_folder_is_configured(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    settings: RecorderSettings | None,
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(f"KAFKAFEATURES_{name}", text)
    assert main(["run", *words]) == 0
    assert started.settings[0].recorder == settings


@pytest.mark.parametrize(
    ("words", "variable", "used"),
    [((), "json", "json"), ((), "text", "text"), (("--log-format", "text"), "xml", "text")],
)
def test_the_log_format_comes_from_the_flag_before_the_environment(
    started: Started, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str, used: str
) -> None:
    monkeypatch.setenv("KAFKAFEATURES_LOG_FORMAT", variable)
    assert main(["run", *words]) == 0
    assert started.logs == [(used, "info")]


@pytest.mark.parametrize(
    ("words", "variable", "used"),
    [((), "", "info"), ((), "warning", "warning"), (("--log-level", "error"), "debug", "error")],
)
def test_the_log_level_comes_from_the_flag_before_the_environment(
    started: Started, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str, used: str
) -> None:
    monkeypatch.setenv("KAFKAFEATURES_LOG_LEVEL", variable)
    assert main(["run", *words]) == 0
    assert [level for _, level in started.logs] == [used]


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (("--namespace", ""), {}, "--namespace: invalid namespace ''"),
        (("--namespace", "a*"), {}, "--namespace: invalid namespace 'a*'"),
        (("--namespace", "a,b"), {}, "--namespace: invalid namespace 'a,b'"),
        (("--namespace", "a.b"), {}, "--namespace: invalid namespace 'a.b'"),
        (("--namespace", "a\n"), {}, "invalid namespace"),
        (("--namespace", "-a"), {}, "--namespace"),
        (("--namespace", "a-"), {}, "--namespace: invalid namespace 'a-'"),
        (("--namespace", "a" + LONGEST), {}, "at most 63"),
        ((), {"NAMESPACES": "a, b c"}, "KAFKAFEATURES_NAMESPACES: invalid namespace 'b c'"),
        ((), {"NAMESPACES": "a,*"}, "KAFKAFEATURES_NAMESPACES: invalid namespace '*'"),
        ((), {"REQUEST_NAMESPACES": "*"}, "KAFKAFEATURES_REQUEST_NAMESPACES: invalid namespace '*'"),
        ((), {"LOG_FORMAT": "xml"}, "KAFKAFEATURES_LOG_FORMAT: invalid value 'xml'; expected json or text"),
        (("--log-format", "xml"), {}, "--log-format"),
        ((), {"LOG_LEVEL": "debug"}, "KAFKAFEATURES_LOG_LEVEL: invalid value 'debug'; expected info, warning or error"),
        (("--listen", "8080"), {}, "--listen: invalid address '8080'"),
        (("--listen", ":"), {}, "--listen: invalid address ':'"),
        (("--listen", "[]:8080"), {}, "--listen: invalid address '[]:8080'"),
        (("--listen", ":65536"), {}, "--listen: invalid address ':65536'"),
        (("--listen", ":" + "1" * 5000), {}, "expected HOST:PORT"),
        ((), {"LISTEN": "kafka"}, "--listen: invalid address 'kafka'"),
        (("--memory-per-cluster", "64"), {}, "--memory-per-cluster: invalid size '64': expected 32Mi or more, such as"),
        (("--memory-all-clusters", "31Mi"), {}, "--memory-all-clusters: invalid size '31Mi': expected 32Mi or more"),
        ((), {"MEMORY_PER_CLUSTER": "64M"}, "KAFKAFEATURES_MEMORY_PER_CLUSTER: invalid size '64M': expected"),
        ((), {"MEMORY_ALL_CLUSTERS": "-1Gi"}, "KAFKAFEATURES_MEMORY_ALL_CLUSTERS: invalid size '-1Gi': expected"),
        (
            ("--memory-all-clusters", "63Mi"),
            {"MEMORY_PER_CLUSTER": "64Mi"},
            "--memory-per-cluster is more than --memory-all-clusters",
        ),
        (("--max-partition-images", "0"), {}, "--max-partition-images: invalid number '0': expected 1 to 1000"),
        ((), {"MAX_PARTITION_IMAGES": "1001"}, "KAFKAFEATURES_MAX_PARTITION_IMAGES: invalid number '1001': expected"),
        (("--recorder-per-cluster", "1G"), {}, "--recorder-per-cluster: invalid size '1G': expected"),
        ((), {"RECORDER_ALL_CLUSTERS": "1Mi"}, "KAFKAFEATURES_RECORDER_ALL_CLUSTERS: invalid size '1Mi': expected"),
        (
            ("--recorder-per-cluster", "2Gi", "--recorder-all-clusters", "1Gi"),
            {},
            "--recorder-per-cluster is more than --recorder-all-clusters",
        ),
        ((), {"DENY_ADDRESS": "10.0.0.0/99"}, "KAFKAFEATURES_DENY_ADDRESS: invalid network '10.0.0.0/99'"),
        (
            (),
            {"ALLOW_ADDRESS": "10.20.1.0/16"},
            "KAFKAFEATURES_ALLOW_ADDRESS: invalid network '10.20.1.0/16': the address has bits beyond /16; "
            "the network is 10.20.0.0/16",
        ),
        (("--notify-format", "discord"), {}, "--notify-format: invalid choice: 'discord'"),
        (
            (),
            {"NOTIFY_FORMAT": "xml"},
            "KAFKAFEATURES_NOTIFY_FORMAT: invalid value 'xml'; expected json, slack or",
        ),
        (
            ("--notify-event", "Staled"),
            {},
            "--notify-event: invalid value 'Staled'; expected ApprovalRequired,",
        ),
        ((), {"NOTIFY_EVENTS": "Halted, Staled"}, "KAFKAFEATURES_NOTIFY_EVENTS: invalid value 'Staled'; expected"),
        (("--notify-sender", "a" * 101), {}, "--notify-sender: expected at most 100 printable characters, not 'aaa"),
        ((), {"NOTIFY_ALLOW_HTTP": "yes"}, "KAFKAFEATURES_NOTIFY_ALLOW_HTTP: invalid value 'yes'; expected true or"),
        (("--deny-address", "fd00::1/8"), {}, "the address has bits beyond /8; the network is fd00::/8"),
    ],
)
def test_an_invalid_setting_of_the_operator_gives_one_line_and_exit_code_64(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    variables: dict[str, str],
    message: str,
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(f"KAFKAFEATURES_{name}", text)
    assert main(["run", *words]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not started.settings


def test_the_command_run_without_kopf_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("kafkafeatures.app")
    monkeypatch.delitem(sys.modules, "kafkafeatures.app")
    monkeypatch.setitem(sys.modules, "kopf", None)
    monkeypatch.delitem(sys.modules, "kafkafeatures.handlers", raising=False)
    assert main(["run"]) == Exit.FAILED
    says = "the operator needs kopf: pip install '.[operator]' in the folder of this repository"
    assert capsys.readouterr().err == f"kafkafeatures: {says}\n"
