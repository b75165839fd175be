"""The command line as a process: exit codes, errors of one line, and no import of a module that is not used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.cli.shell.commands import COMMANDS, GROUPS
from kafkafeatures.cli.shell.main import grouped_help, main
from kafkafeatures.cli.shell.other_words import ANSWERS
from kafkafeatures.cli.shell.site import runbook_of
from tests.kafkasim import commands
from tests.kafkasim.test_process import heard, simulator
from tests.started import PYTHONPATH

HEAVY = (
    "kopf kubernetes markupsafe pydantic pykube requests rich scramp urllib.request yaml "
    "kafkafeatures.core.engine.decide".split()
)
"""Modules that take time to import, and that most commands do not use."""
SELDOM = """
numpy kopf kubernetes pykube rich scramp urllib.request
kafkafeatures.core.roll.budgets kafkafeatures.core.roll.planner kafkafeatures.core.roll.pods
kafkafeatures.core.facts.replication kafkafeatures.core.roll.checks kafkafeatures.core.roll.roll
kafkafeatures.core.levels.unregistration kafkafeatures.core.facts.workloads kafkafeatures.kafka.probe.identities
kafkafeatures.kafka.partitions.partitions kafkafeatures.kafka.requests.unregister
kafkafeatures.kafka.wire.authentication kafkafeatures.kafka.wire.partition_codec kafkafeatures.kafka.wire.sasl
kafkafeatures.kafka.wire.sasl_codec kafkafeatures.kafka.wire.topic_messages kafkafeatures.kafka.wire.unregister_codec
kafkafeatures.kube kafkafeatures.reconcile.controller kafkafeatures.reconcile.kubernetes_store kraftlog.partitions
""".split()
"""Modules that only rolls, Kubernetes, credentials, partitions, unregistering or a terminal need; to raise a level does
not need them.
"""
SAY_IMPORTED = f"import sys\nprint(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def run(*words: str, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "kafkafeatures"]
    return subprocess.run(
        [*command, *words],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        # Exit codes: 64 for wrong flags and files, 5 for an unreachable node or server; 4 is for blockers alone.
        ((), 64, ""),
        (("descibe",), 64, "unknown command 'descibe' (did you mean 'describe'?); see kafkafeatures --help"),
        (("zzz",), 64, "unknown command 'zzz'; see kafkafeatures --help"),
        (("help", "descibe"), 64, "did you mean 'describe'?"),
        (("Describe",), 64, "unknown command 'Describe' (did you mean 'describe'?)"),
        (("downgrade",), 64, "the following arguments are required: --feature"),
        (("downgrade", "--feature", "metadata.version=23"), 64, "no cluster given; use --bootstrap-server or"),
        (("upgrade",), 64, "one of the arguments --release/--release-version --feature is required"),
        (("rollback", "--to", "1"), 64, "to downgrade a feature, run kafkafeatures downgrade --feature NAME=LEVEL"),
        (("undo",), 64, "from a migration to KRaft, set spec.migration.desired to RolledBack; see docs/how-to/migrate"),
        (("help", "undo"), 64, "there is no command 'undo': to downgrade a feature"),
        (("-n", "kafka", "rollback", "orders"), 64, "see docs/how-to/go-back.md"),
        (("Downgrades",), 64, "unknown command 'Downgrades' (did you mean 'downgrade'?)"),
        (("revert",), 64, "there is no command 'revert': to downgrade"),
        (("lower",), 64, "there is no command 'lower': to downgrade"),
        (("rolback",), 64, "there is no command 'rolback': to downgrade"),
        (("describe",), 64, "--bootstrap-server or --bootstrap-controller"),
        (("describe", "--bootstrap-server", "nonsense"), 64, "expected host:port"),
        (("describe", "--bootstrap-server", "a:1", "--request-timeout", "0"), 64, "expected 0.1 to"),
        (("describe", "--boot", "a:1"), 64, "unknown flag --boot (did you mean --bootstrap-controller or"),
        (
            ("plan", "--bootstrap-server", "x"),
            64,
            "plan: unknown flag --bootstrap-server: without a document, use kafkafeatures upgrade --release X, and",
        ),
        (("downgrade", "--release", "4.1"), 64, "name each feature, such as --feature metadata.version=4.1-IV1; see"),
        (("describe", "-b", "a:1"), 64, "unknown flag -b: use --bootstrap-server HOST:PORT; see"),
        (("apply", "-f", "a.yaml", "--dry-run=client"), 64, "apply: --dry-run takes no value; see"),
        (("upgrade", "4.2"), 64, "kafkafeatures upgrade: invalid argument '4.2': use --release 4.2; see"),
        (("upgrade", "group.version=1"), 64, "use --feature group.version=1; see"),
        (("completion",), 64, "required: shell (bash, zsh, fish); see kafkafeatures completion --help"),
        (("log",), 64, "required: action (decode, verify, state, timeline, ghosts), PATH; see"),
        (("describe", "--watch", "--bootstrap-server", "a:1"), 64, "stdout is not one: leave out --watch"),
        (("simulate", "--nodes", "3"), 64, "at least one controller and one broker in --nodes 3; set --controllers"),
        (
            ("apply", "--tmeout=3s"),
            64,
            "unknown flag --tmeout (did you mean --timeout?); see kafkafeatures apply --help",
        ),
        (("migration", "settings", "--frob"), 64, "kafkafeatures migration: unknown flag --frob; see"),
        (("plan", "-R"), 64, "kafkafeatures plan: unknown flag -R; see kafkafeatures plan --help"),
        (("plan", "-A"), 64, "kafkafeatures plan: unknown flag -A (list, serve take it); see"),
        (("describe", "h:9092"), 64, "invalid argument 'h:9092': use --bootstrap-server h:9092; see"),
        (("plan", "a.yaml"), 64, "kafkafeatures plan: invalid argument 'a.yaml': use -f a.yaml; see"),
        (("apply", "--yes", "./a.yml"), 64, "invalid argument './a.yml': use -f ./a.yml; see"),
        (("check", "--release", "4.2.1"), 64, "release '4.2.1' is not known to this version; did you mean 4.2?"),
        (("check", "--release", "v4.2"), 64, "release 'v4.2' is not known to this version; did you mean 4.2?"),
        (("check", "--mode", "levels"), 64, "--mode requires --rights"),
        (("check", "--zookeeper-config", "zk.properties"), 64, "--zookeeper-config requires --rights"),
        (("check", "--zookeeper", ""), 64, "--zookeeper requires --rights"),
        (("check", "-n", "kafka"), 64, "--namespace requires --rights"),
        (("check", "--as-group", "admins"), 64, "--as-group requires --rights"),
        (("check", "--rights", "--release", "4.2"), 64, "--rights and --release are two checks"),
        (("check", "--rights", "--zookeeper", "z:2181"), 64, "--zookeeper requires --mode ibp or --mode migrate"),
        (("check", "--rights", "--mode", "all"), 64, "invalid choice: 'all'"),
        (("check", "--rights", "--bootstrap-server", "127.0.0.1:1"), 5, "127.0.0.1:1: connection refused"),
        (("-n", "kafka", "status"), 64, "kafkafeatures status: the following arguments are required: NAME"),
        (("-n", "kafka"), 64, "kafkafeatures: unknown flag -n (describe, check, plan take it); see"),
        (("kafka",), 64, "unknown command 'kafka'"),
        (("--as-group", "a", "status", "orders"), 64, "--as-group requires --as USER"),
        (("--as", "a", "--kubeconfig", "/nowhere", "-v", "list"), 64, "kubeconfig /nowhere does not exist; set"),
        (("-o", "json", "list", "--kubeconfig=/nowhere"), 64, '"exitCode": 64'),
        (("list", "--kubeconfig=/"), 64, "/: Is a directory"),
        (("plan", "orders", "--config", "c"), 64, "--config requires -f FILE"),
        (("plan", "-f", "-", "--config", "-"), 64, "-f - and --config - cannot both be stdin"),
        (("plan", "-f", "/dev/null", "--config", "/nowhere"), 64, "/nowhere: No such file"),
        (("describe", "--bootstrap-server", "a:1", "--config", "/nowhere"), 64, "/nowhere: No such file"),
        (("describe", "--bootstrap-server", "a:1", "--config", "-", "--controller-config", "/nowhere"), 64, "/nowhere"),
        (("describe", "--bootstrap-server", "127.0.0.1:1"), 5, "127.0.0.1:1: connection refused"),
        (("describe", "--bootstrap-server", "no.such.host.invalid:1"), 5, "host name is not known"),
        (("apply",), 64, "required: -f"),
        (("apply", "-f", "/nowhere.yaml"), 64, "/nowhere.yaml: No such file"),
        (("apply", "-f", "/dev/null", "--timeout", "soon"), 64, "invalid duration 'soon'"),
        (("wait", "x", "--timeout", "0"), 64, "invalid duration '0': expected 1ms to 999999h, such as"),
        (("wait", "x", "--timeout", "99999999999h"), 64, "invalid duration '99999999999h': expected 1ms to 999999h"),
        (("plan",), 64, "either -f FILE or the NAME"),
        (("plan", "orders", "-f", "/dev/null"), 64, "either -f FILE or the NAME"),
        (("plan", "orders", "--latest"), 64, "--latest requires -f FILE"),
        (("status",), 64, "required: NAME"),
        (("report", "a", "--bootstrap-controller", "b:1"), 64, "--bootstrap-controller needs --html FILE"),
        (("report", "a", "--html", "x", "--config", "/dev/null"), 64, "--bootstrap-server or --bootstrap-controller"),
        (("status", "kafka/orders"), 64, "invalid argument 'kafka/orders': use -n kafka orders; see"),
        (("status", "Orders"), 64, "invalid resource name"),
        (("restart", "orders", "--only", "brokers", "--pod", "broker-1"), 64, "not allowed with argument --only"),
        (("restart", "orders", "--pod", "pod/broker-1"), 64, "invalid resource name"),
        (("wait", "orders", "--for", "feature=group.version"), 64, "in quotes"),
        (("approve", "orders"), 3, "not a terminal; use --plan HASH"),
    ],
)
def test_a_failed_command_ends_with_at_most_one_line_and_its_exit_code(
    words: tuple[str, ...], code: int, message: str
) -> None:
    done = commands.command(words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("describe", "--bootstrap-server", "127.0.0.1:1"),
            {
                "what": "connection refused", "where": "127.0.0.1:1",
                "remedy": "check host, port and that the node runs", "exitCode": 5,
            },
        ),
        (
            ("plan", "-f", "/nowhere.yaml"),
            {"what": "No such file or directory", "where": "/nowhere.yaml", "exitCode": 64},
        ),
        (("status", "orders", "--kubeconfig", "/nowhere"), {"exitCode": 64}),
        (("plan", "--lates"), {"what": "unknown flag --lates (did you mean --latest?)", "exitCode": 64}),
        (("plan",), {"what": "specify either -f FILE or the NAME of a resource on Kubernetes", "exitCode": 64}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [("-o", "json"), ("--output=json",), ("-ojson",), ("-o=json",)])
def test_an_error_with_json_output_is_one_object_on_stderr(
    words: tuple[str, ...], error: dict[str, object], form: tuple[str, ...]
) -> None:
    done = commands.command((*words, *form))
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert json.loads(done.stderr)["error"].items() >= error.items()
    assert done.returncode == error["exitCode"]


def test_help_before_a_command_and_the_flag_help_print_the_same() -> None:
    assert run("help", "plan").stdout == run("plan", "--help").stdout
    assert run("help").stdout == run("--help").stdout


def test_each_command_is_in_exactly_one_group_of_the_help() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    assert all(f"  {name} " in run("help").stdout for name in COMMANDS)
    assert max(map(len, grouped_help().splitlines())) <= 80


@pytest.mark.parametrize("words", [("--help",), *((command, "--help") for command in COMMANDS)])
def test_every_command_prints_its_usage_for_the_flag_help(words: tuple[str, ...]) -> None:
    done = commands.command(words)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: kafkafeatures")


def test_version_needs_no_cluster() -> None:
    done = run("version")
    assert done.returncode == 0
    assert "kafkafeatures 0." in done.stdout


def test_apply_to_an_unreachable_cluster_exits_with_5_and_writes_unreachable_into_the_state_file(
    tmp_path: Path,
) -> None:
    document = tmp_path / "levels.yaml"
    document.write_text(
        "apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {name: a}\n"
        'spec: {cluster: {bootstrapServers: "127.0.0.1:1"}, features: {levels: [{name: group.version, level: 1}]}}\n'
    )
    done = run("apply", "-f", str(document))
    assert done.returncode == 5
    assert "connection refused" in done.stderr
    state = (tmp_path / "levels.status.yaml").read_text()
    assert "Unreachable" in state


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("bootstrapServers: kafka", "spec.cluster.bootstrapServers: invalid address 'kafka': expected host:port"),
        (
            "bootstrapControllers: 'k:x'",
            "spec.cluster.bootstrapControllers: invalid address 'k:x': expected a port from 1 to 65535",
        ),
        ("bootstrapServers: ',,,'", "spec.cluster: bootstrapServers and bootstrapControllers are empty"),
        ("bootstrapServers: kafka, tls: {caSecretRef: {name: ca}}", "invalid address 'kafka': expected host:port"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_an_invalid_address_is_reported_with_its_path_once(
    tmp_path: Path, command: str, cluster: str, message: str
) -> None:
    document = tmp_path / "levels.yaml"
    document.write_text(
        "apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {name: a}\n"
        f"spec: {{cluster: {{{cluster}}}}}\n"
    )
    done = run(command, "-f", str(document))
    assert done.returncode == 64
    assert done.stderr.startswith(f"kafkafeatures: {document}: spec.cluster")
    assert done.stderr.count("spec.cluster") == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [document]


@pytest.fixture(scope="module")
def simulated() -> Iterator[tuple[str, ...]]:
    with simulator("--controllers", "1", "--brokers", "1", "--release", "4.2") as process:
        where = heard(process)
        servers, controllers = str(where["bootstrapServers"]), str(where["bootstrapControllers"])
        yield "--bootstrap-server", servers, "--bootstrap-controller", controllers


@pytest.mark.parametrize(("form", "imported"), [("json", ""), ("yaml", "yaml"), ("table", "rich")])
def test_describe_imports_only_the_modules_that_it_uses(simulated: tuple[str, ...], form: str, imported: str) -> None:
    words = ["describe", *simulated, "-o", form]
    code = f"from kafkafeatures.cli.shell.main import main\nassert main({words}) == 0\n{SAY_IMPORTED}"
    done = run(code=code)
    assert done.stderr.splitlines()[-1] == imported, done.stderr
    assert '"MetadataLog"' in done.stdout or form != "json"


def test_requests_are_logged_on_stderr_with_the_verbose_flag(simulated: tuple[str, ...]) -> None:
    assert run("describe", *simulated, "-o", "json").stderr == ""
    done = run("-v", "describe", *simulated, "-o", "json")
    assert json.loads(done.stdout)["kind"] == "Cluster"
    lines = [line.split(" ", 1)[1] for line in done.stderr.splitlines()]
    server = simulated[1]
    assert f"> {server} ApiVersions v4" in lines
    assert any(re.fullmatch(rf"< {server} DescribeCluster v2: [0-9]+ bytes in [0-9]+ ms", line) for line in lines)
    assert sum(line.startswith(">") for line in lines) == sum(line.startswith("<") for line in lines)


def test_describe_imports_only_the_schemas_of_the_requests_that_it_sends(simulated: tuple[str, ...]) -> None:
    words = ["describe", *simulated, "-o", "json"]
    code = (
        f"import sys\nfrom kafkafeatures.cli.shell.main import main\nassert main({words}) == 0\n"
        "schemas = {name.split('.')[2] for name in sys.modules if name.startswith('kio.schema.') and '.v' in name}\n"
        "print(*sorted(one for one in schemas if not one.endswith('header')), file=sys.stderr)"
    )
    assert run(code=code).stderr == "api_versions describe_cluster describe_quorum fetch\n"


def document_of(simulated: tuple[str, ...], folder: Path) -> Path:
    document = folder / "levels.yaml"
    document.write_text(
        "apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {name: a}\n"
        f"spec: {{cluster: {{bootstrapServers: '{simulated[1]}', bootstrapControllers: '{simulated[3]}'}}, "
        "features: {levels: [{name: transaction.version, level: 2}]}}\n"  # which needs no setting of a node
    )
    return document


@pytest.mark.parametrize("command", ["describe", "plan", "apply"])
def test_commands_on_levels_import_no_modules_of_rolls_credentials_and_partitions(
    simulated: tuple[str, ...], tmp_path: Path, command: str
) -> None:
    of_file = ("-f", str(document_of(simulated, tmp_path)), "-o", "json")
    words = [command, *((*simulated, "-o", "json") if command == "describe" else of_file)]
    code = (
        f"import sys\nfrom kafkafeatures.cli.shell.main import main\nassert main({words}) == 0\n"
        f"print(*(name for name in {SELDOM} if name in sys.modules), file=sys.stderr)"
    )
    assert run(code=code).stderr.splitlines()[-1] == ""


def test_every_module_that_must_not_be_imported_exists() -> None:
    """Otherwise the name of a renamed module would stay in the list, and the test would check nothing."""
    assert [name for name in SELDOM if find_spec(name) is None] == []


@pytest.mark.parametrize("command", ["describe", "plan", "apply"])
def test_a_command_never_runs_the_garbage_collector(simulated: tuple[str, ...], tmp_path: Path, command: str) -> None:
    """A command makes little garbage, and one run of the collector takes a fifteenth of its time."""
    document = document_of(simulated, tmp_path)
    words = [command, *(simulated if command == "describe" else ("-f", str(document)))]
    code = (
        "import gc, os, sys\nfrom kafkafeatures import __main__ as program, interrupts\n"
        f"sys.argv = ['kafkafeatures', *{words}]\n"
        "counts = lambda: [one['collections'] for one in gc.get_stats()]\nbefore = counts()\n"
        "def end(code): print(code, counts() == before, file=sys.stderr, flush=True); os._exit(code)\n"
        "interrupts.end = end\nprogram.main()"
    )
    assert run(code=code).stderr.splitlines()[-1] == "0 True"


@pytest.mark.parametrize(
    ("words", "imported"),
    [
        (("unregister", "--broker", "1", *NOWHERE), ""),
        (("init", *NOWHERE), ""),
        (("version",), ""),
        (("completion", "bash"), "yaml kafkafeatures.core.engine.decide"),  # it knows the flags of every command
        (("plan", "-f", "/nowhere.yaml"), "yaml kafkafeatures.core.engine.decide"),
        (("apply", "-f", "/nowhere.yaml"), "yaml kafkafeatures.core.engine.decide"),
        (("status", "orders"), ""),  # without a kubeconfig no server is asked
        (("run", "--help"), ""),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else None,
)
def test_a_command_imports_only_the_modules_that_it_uses(tmp_path: Path, words: tuple[str, ...], imported: str) -> None:
    """The documentation promises a short start: tables, documents and schemas are imported only when they are used."""
    code = f"from kafkafeatures.cli.shell.main import main\nmain({list(words)})\n{SAY_IMPORTED}"
    assert run(code=code, HOME=str(tmp_path)).stderr.splitlines()[-1] == imported


def test_a_command_word_of_another_tool_is_answered_with_an_explanation_and_no_suggestion() -> None:
    assert ANSWERS.keys().isdisjoint(COMMANDS)
    for word, answer in ANSWERS.items():
        done = commands.command([word])
        assert (done.returncode, "did you mean" in done.stderr, answer in done.stderr) == (64, False, True)
        pages = re.findall(r"docs/\S+\.md", answer)
        assert pages
        assert all((Path(__file__).parents[3] / page).exists() for page in pages)


@pytest.mark.parametrize("command", ["upgrade", "check"])
def test_the_flag_of_kafkas_own_tool_names_the_release_too(command: str) -> None:
    done = commands.command([command, "--release-version", "7.9", "--bootstrap-server", "127.0.0.1:1"])
    assert (done.returncode, "release '7.9' is one of Confluent Platform, with Kafka 3.9" in done.stderr) == (64, True)


def test_a_page_is_named_by_its_file_or_by_its_address_where_the_site_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo"]) == 64
    assert "see docs/how-to/go-back.md" in capsys.readouterr().err
    assert runbook_of("TlsFailed") == "docs/runbooks/TlsFailed.md"
    monkeypatch.setenv("KAFKAFEATURES_DOCS", "https://docs.example/kafkafeatures/")
    assert main(["undo"]) == 64
    assert "see https://docs.example/kafkafeatures/how-to/go-back.html" in capsys.readouterr().err
    assert runbook_of("TlsFailed") == "https://docs.example/kafkafeatures/runbooks/TlsFailed.html"
    assert [runbook_of(reason) for reason in ("InSync", "OfANewerOperator", "")] == ["", "", ""]


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.needs_action])
def test_a_runbook_that_a_message_names_exists(reason: Reason) -> None:
    assert (Path(__file__).parents[3] / runbook_of(reason)).exists()


def test_the_list_of_commands_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    *lines, _ = grouped_help().splitlines()  # the last line has a command to type
    assert max(map(len, lines)) <= 60
