"""The command line in the hands of shells and scripts, on a simulated cluster: pipes, time-outs, odd words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kafkasim.commands import ENVIRONMENT, shell
from tests.kafkasim.test_process import heard, say, simulator

INVALID = "invalid security.protocol: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
PROGRAM = f"{sys.executable} -m kafkafeatures"


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        yield heard(process)


def document(
    folder: Path, cluster: dict[str, Any], levels: dict[str, int], consents: Sequence[str] = (), **more: Any
) -> Path:
    path = folder / "levels.yaml"
    spec = {
        "consents": list(consents),
        "cluster": {"bootstrapServers": cluster["bootstrapServers"], **more},
        "features": {"levels": [{"name": name, "level": level} for name, level in levels.items()]},
    }
    body = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    path.write_text(json.dumps(body))
    return path


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_reader_that_leaves_changes_nothing_about_the_end(cluster: dict[str, Any], form: str) -> None:
    done = shell(f"{PROGRAM} describe --bootstrap-server {cluster['bootstrapServers']} -o {form} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["describe --bootstrap-server {}", "describe --apis --bootstrap-server {}"])
def test_json_and_yaml_are_the_same_document(cluster: dict[str, Any], words: str) -> None:
    line = f"{PROGRAM} {words.format(cluster['bootstrapServers'])} -o "
    one, other = json.loads(shell(f"{line} json").stdout), yaml.safe_load(shell(f"{line} yaml").stdout)
    one["source"], other["source"] = one["source"]["kind"], other["source"]["kind"]
    assert one == other


def test_a_blocked_apply_says_so_though_its_output_is_not_read(cluster: dict[str, Any], tmp_path: Path) -> None:
    document(tmp_path, cluster, {"metadata.version": 99})
    assert shell(f"{PROGRAM} apply -f levels.yaml 2>&1 | true", tmp_path).returncode == 4


def test_an_apply_continues_to_its_end_though_its_progress_is_not_read(cluster: dict[str, Any], tmp_path: Path) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29, "share.version": 1, "group.version": 1})
    done = shell(f"{PROGRAM} apply -f levels.yaml 2>&1 >/dev/null | head -1", tmp_path)
    assert done.returncode == 0
    assert shell(f"{PROGRAM} plan -f {path} -o json | grep -c InSync").returncode == 0
    assert "intent" not in path.with_suffix(".status.yaml").read_text()


def test_without_any_output_it_works_as_well(cluster: dict[str, Any]) -> None:
    words = f"describe --bootstrap-server {cluster['bootstrapServers']} -o json"
    assert shell(f"{PROGRAM} {words} >&-").returncode == 0


@pytest.mark.parametrize("timeout", ["0", "0s", "9" * 400 + "h", "-1", "x"])
def test_a_timeout_that_is_none_is_refused_before_anything_is_sent(
    cluster: dict[str, Any], tmp_path: Path, timeout: str
) -> None:
    document(tmp_path, cluster, {"streams.version": 1})
    done = shell(f"{PROGRAM} apply -f levels.yaml --timeout={timeout}", tmp_path)
    assert done.returncode == 64
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_timeout_bounds_a_single_reconciliation_as_well(tmp_path: Path) -> None:
    silent = (
        "import socket,subprocess,sys; s=socket.create_server(('127.0.0.1',0)); "
        "sys.exit(subprocess.call(sys.argv[1:-1] + ['-f', sys.argv[-1]], "
        "env={**__import__('os').environ, 'PORT': str(s.getsockname()[1])}))"
    )
    path = tmp_path / "levels.yaml"
    starter = (
        "import os,sys,pathlib; p=pathlib.Path(sys.argv[2]); "
        "p.write_text(p.read_text().replace('PORT', os.environ['PORT'])); "
        "from kafkafeatures.cli.shell.main import main; sys.exit(main(['apply', '-f', str(p), '--timeout', '1s']))"
    )
    document(tmp_path, {"bootstrapServers": "127.0.0.1:PORT"}, {"group.version": 1})
    done = subprocess.run(
        [sys.executable, "-c", silent, sys.executable, "-c", starter, str(path)],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=15, check=False,
    )  # fmt: skip  # the request timeout is 30 s
    assert done.returncode == 5
    assert "timed out; run the command again to continue" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("describe --bootstrap-server ,", 64, "are empty; expected host:port"),
        ("describe --bootstrap-server [::1:9092", 64, "invalid address '[::1:9092': expected host:port"),
        ("describe --bootstrap-server a..b:9092", 64, "invalid host name 'a..b'"),
        ("describe --bootstrap-server user:canary@h:9092", 64, "invalid address: it contains a user"),
        ("apply -f /", 4, "Is a directory"),
        ("apply -f .", 4, "Is a directory"),
        ("apply -f nothing.yaml", 4, "nothing.yaml: No such file or directory"),
        ("apply -f levels.yaml --state levels.yaml", 64, "is the document itself"),
        ("apply -f levels.yaml --approve sha256:12", 64, "invalid plan hash"),
        ("unregister --broker x --bootstrap-server h:1", 64, "invalid int value"),
    ],
)
def test_odd_words_get_one_line(cluster: dict[str, Any], tmp_path: Path, words: str, code: int, said: str) -> None:
    document(tmp_path, cluster, {"streams.version": 1})
    done = shell(f"{PROGRAM} {words}", tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "canary" not in done.stderr


@pytest.mark.parametrize(
    "sasl",
    [
        {"mechanism": "PLAIN", "secretRef": "canary"},
        {"mechanism": "PLAIN", "username": ["canary"], "secretRef": {"name": "x"}},
        {"mechanism": "PLAIN", "secretRef": {"name": "x", "passwordKey": {"value": "canary"}}},
        {"mechanism": "canary", "secretRef": {"name": "x"}},
    ],
)
def test_what_stands_where_a_password_might_is_not_repeated(
    cluster: dict[str, Any], tmp_path: Path, sasl: dict[str, Any]
) -> None:
    document(tmp_path, cluster, {"streams.version": 1}, sasl=sasl)
    done = shell(f"{PROGRAM} plan -f levels.yaml", tmp_path)
    assert done.returncode == 4
    assert "spec.cluster.sasl" in done.stderr
    assert "canary" not in done.stderr + done.stdout


@pytest.mark.parametrize("file", ["-f -", "-f /dev/stdin", "-f <(cat levels.yaml)"])
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_document_from_standard_input_leaves_nothing_behind(
    cluster: dict[str, Any], tmp_path: Path, command: str, file: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29})
    before = sorted(Path("/dev").iterdir())
    done = shell(f"{PROGRAM} {command} {file} < levels.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one for one in tmp_path.iterdir() if one.name != ".hypothesis"] == [path]  # of the codec, in tests
    assert sorted(Path("/dev").iterdir()) == before


@pytest.mark.parametrize("form", ["table", "json"])
def test_apply_with_dry_run_says_what_plan_says_and_leaves_nothing_behind(
    cluster: dict[str, Any], tmp_path: Path, form: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29, "streams.version": 1})
    dry = shell(f"{PROGRAM} apply -f levels.yaml --dry-run{'' if form == 'table' else ' -o json'}", tmp_path)
    plan = shell(f"{PROGRAM} plan -f levels.yaml -o {form}", tmp_path)
    assert "streams.version 0 -> 1" in dry.stdout
    assert (dry.returncode, dry.stderr) == (plan.returncode, plan.stderr) == (0, "")
    assert _but_the_offset(dry.stdout) == _but_the_offset(plan.stdout)
    assert list(tmp_path.iterdir()) == [path]
    assert finalized(cluster, "streams.version") == 0


@pytest.mark.parametrize(("levels", "code"), [({"metadata.version": 99}, 4), ({}, 3)])
def test_apply_with_dry_run_ends_with_the_code_of_plan(
    cluster: dict[str, Any], tmp_path: Path, levels: dict[str, int], code: int
) -> None:
    path = document(tmp_path, cluster, levels)
    if not levels:
        body = json.loads(path.read_text())
        path.write_text(json.dumps({**body, "spec": {**body["spec"], "features": {"releaseVersion": "4.2"}}}))
    assert [
        shell(f"{PROGRAM} {one}", tmp_path).returncode
        for one in ("apply --dry-run -f levels.yaml", "plan -f levels.yaml")
    ] == [code, code]


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_where_the_document_approves_another_plan_it_is_the_document_that_has_to_be_changed(
    cluster: dict[str, Any], tmp_path: Path, command: str
) -> None:
    """A hash on the command line beside it would hold as well: each has to be of the plan."""
    path = document(tmp_path, cluster, {})
    body = json.loads(path.read_text())
    changed = {"features": {"releaseVersion": "4.2"}, "approval": {"planHash": "sha256:00000000"}}
    path.write_text(json.dumps({**body, "spec": {**body["spec"], **changed}}))
    done = shell(f"{PROGRAM} {command} -f levels.yaml", tmp_path)
    assert done.returncode == 3
    said = "approve: set spec.approval.planHash of levels.yaml, which is of another plan, to sha256:"
    assert said in " ".join((done.stdout + done.stderr).split())
    assert "--approve" not in done.stdout + done.stderr


def _but_the_offset(text: str) -> str:
    """The log continues while we look."""
    return re.sub(r'offset"?:? [0-9]+', "offset", text)


@pytest.mark.parametrize(("properties", "code"), [("security.protocol=PLAINTEXT", 0), ("security.protocol=X", 4)])
@pytest.mark.parametrize("flags", ["--config -", "--config - --controller-config -"])
def test_client_properties_may_come_from_standard_input(
    cluster: dict[str, Any], tmp_path: Path, flags: str, properties: str, code: int
) -> None:
    words = f"describe --bootstrap-server {cluster['bootstrapServers']} {flags}"
    done = shell(f"echo {properties} | {PROGRAM} {words}", tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr == ("" if code == 0 else f"kafkafeatures: stdin: {INVALID}\n")


def test_standard_input_and_a_state_file_go_together(cluster: dict[str, Any], tmp_path: Path) -> None:
    document(tmp_path, cluster, {"metadata.version": 29})
    assert shell(f"{PROGRAM} apply -f - --state kept.yaml < levels.yaml", tmp_path).returncode == 0
    assert "InSync" in (tmp_path / "kept.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spec: [", "stdin: line 1: invalid YAML"),
        ("a: \x07\n", "stdin: invalid YAML: U+0007 at position 3 is not allowed"),
        ('"a\\nb": 1\n', "stdin: a b: unknown field"),
        ("a: \xff", "stdin: invalid YAML"),
    ],
)
def test_what_is_wrong_on_standard_input_is_reported_in_lines_of_their_own(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "x").write_bytes(text.encode("latin-1"))
    done = shell(f"{PROGRAM} plan -f - < x", tmp_path)
    assert done.returncode == 4
    lines = done.stderr.removeprefix("kafkafeatures: ").splitlines()
    assert all(line.startswith("stdin: ") for line in lines), done.stderr
    assert any(said in line for line in lines), done.stderr
    assert text.startswith('"') or len(lines) == 1


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("folder", "the state file folder is a directory; name another with --state FILE"),
        ("nowhere/state", "the directory nowhere of the state file does not exist"),
        ("/dev/null", "the state file /dev/null is not a regular file"),
        ("levels.yaml", "levels.yaml is the document itself, not its state file"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_state_that_can_be_no_file_is_named_and_leaves_nothing_behind(
    cluster: dict[str, Any], tmp_path: Path, command: str, state: str, said: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29})
    folder = tmp_path / "folder"
    folder.mkdir()
    done = shell(f"{PROGRAM} {command} -f levels.yaml --state {state}", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert said in done.stderr
    assert sorted(one for one in tmp_path.rglob("*") if ".hypothesis" not in one.parts) == sorted([folder, path])
    assert not Path("/dev/null.lock").exists()


def apply_while(
    process: subprocess.Popen[str], folder: Path, until: str, *requests: str, flags: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Runs `apply` and, once it says `until`, sends requests to the simulator. Returns (exit code, stderr)."""
    command = [sys.executable, "-m", "kafkafeatures", "apply", "-f", "levels.yaml", *flags]
    with subprocess.Popen(
        command, env=ENVIRONMENT, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        said = ""
        while until not in said and (line := running.stderr.readline()):
            said += line
        for request in requests:
            assert say(process, request).get("done"), request
        said += running.stderr.read()
        return running.wait(60), said


def test_apply_waits_for_an_old_broker_that_is_being_upgraded(tmp_path: Path) -> None:
    with simulator("--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, said = apply_while(process, tmp_path, "WaitingForNodes: broker 2", "upgrade broker 2 4.2")
    assert (code, said.count("; waiting")) == (0, 1)
    assert "InSync" in said


def test_apply_waits_for_a_quorum(tmp_path: Path) -> None:
    with simulator("--metadata-version", "25") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        for request in ("stop controller 3001", "stop controller 3002"):
            assert say(process, request)["done"]
        both = ("start controller 3001", "start controller 3002")
        code, said = apply_while(process, tmp_path, "WaitingForQuorum", *both)
    assert code == 0, said
    assert "InSync" in said


def test_apply_gives_up_in_time_and_says_what_it_waited_for(tmp_path: Path) -> None:
    with simulator("--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, said = apply_while(process, tmp_path, "WaitingForNodes", flags=("--timeout", "12s"))
    assert code == 5
    assert "timed out" in said.splitlines()[-2]
    assert "broker 2" in said.splitlines()[-1]


def test_apply_does_not_wait_where_an_action_is_required(tmp_path: Path) -> None:
    with simulator("--ghost-broker", "4=4.0", "--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, said = apply_while(process, tmp_path, "never said", flags=("--timeout", "1h"))
    assert code == 4
    assert "waiting" not in said


def test_version_names_the_known_releases_of_kafka() -> None:
    assert "knows Kafka 3.0, 3.1, 3.2, " in shell(f"{PROGRAM} version").stdout
    assert all(f" {release}" in shell(f"{PROGRAM} version").stdout for release in ("3.9,", "4.0,", "4.4\n"))


RAISED = ("--metadata-version", "29", "--feature", "share.version=1")
DOWN, CONSENT = {"share.version": 0}, "share.version:1->0"


def finalized(cluster: dict[str, Any], feature: str) -> int:
    described = shell(f"{PROGRAM} describe --bootstrap-server {cluster['bootstrapServers']} -o json")
    return next(int(one["finalized"]) for one in json.loads(described.stdout)["features"] if one["name"] == feature)


@pytest.mark.parametrize("state", ["-f levels.yaml", "-f levels.yaml --state other.yaml", "-f - < levels.yaml"])
def test_a_downgrade_by_consent_without_the_state_that_tells_of_it_needs_yes(tmp_path: Path, state: str) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert f"it is unknown whether consent {CONSENT}" in shell(f"{PROGRAM} plan {state}", tmp_path).stdout
        for _ in range(2):  # the state that is there from the first time on does not tell either
            done = shell(f"{PROGRAM} apply {state}", tmp_path)
            assert done.returncode == 3
            assert f"it is unknown whether consent {CONSENT} was already used" in done.stderr
            assert "not a terminal; use --yes to skip confirmation" in done.stderr
        assert finalized(cluster, "share.version") == 1
        assert shell(f"{PROGRAM} apply --yes {state}", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


def test_a_consent_that_is_younger_than_its_state_goes_ahead(tmp_path: Path) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, {"share.version": 1})
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


def test_a_consent_stays_unverified_until_it_is_written_anew(tmp_path: Path) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, {"share.version": 1}, [CONSENT])  # left in Git; the state was lost
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 3
        document(tmp_path, cluster, {"share.version": 1})
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


STATEFUL_SET = {"driver": "StatefulSet", "statefulSet": {"brokers": ["orders-broker"]}}


def with_workload(folder: Path, cluster: dict[str, Any], workload: dict[str, Any]) -> Path:
    path = document(folder, cluster, {"streams.version": 0})
    body = json.loads(path.read_text())
    body["spec"]["workload"] = workload
    path.write_text(json.dumps(body))
    return path


def test_a_document_whose_pods_the_operator_restarts_is_planned_and_not_applied(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    with_workload(tmp_path, cluster, STATEFUL_SET)
    refused = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (4, 1)
    assert "levels.yaml: spec.workload.driver: StatefulSet needs the operator" in refused.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["levels.yaml"]
    planned = shell(f"{PROGRAM} plan -f levels.yaml", tmp_path)
    assert planned.returncode == 0
    assert "Restarts: by the operator, of the pods of orders-broker; plan NAME shows which" in planned.stdout


def test_a_document_whose_nodes_a_person_restarts_is_applied(cluster: dict[str, Any], tmp_path: Path) -> None:
    with_workload(tmp_path, cluster, {"driver": "Manual"})
    assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0


def test_by_hand_the_command_line_asks_for_the_restart_of_one_node_and_waits_for_it(tmp_path: Path) -> None:
    """Broker 2 does not support the level: the person at the command line restarts it, on the newer Kafka."""
    with simulator("--release", "4.2", "--metadata-version", "25", "--old-broker", "2=4.0") as process:
        cluster = heard(process)
        path = with_workload(tmp_path, cluster, {"driver": "Manual"})
        body = json.loads(path.read_text())
        body["spec"]["features"] = {"levels": [{"name": "share.version", "level": 1}]}
        path.write_text(json.dumps(body))
        applied = shell(f"{PROGRAM} apply -f levels.yaml --yes --timeout 4s", tmp_path)
        assert applied.returncode == 5
        assert applied.stderr.splitlines() == [
            "RestartRequested broker 2: Applied",
            "RollingNodes: restart broker 2 with the newer Kafka; it was not restarted yet",
            "kafkafeatures: timed out; run the command again to continue",
        ]
        assert "restart broker 2; 5 of 6 nodes are current" in applied.stdout
        assert finalized(cluster, "share.version") == 0
