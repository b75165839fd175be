"""The command line in the hands of shells and scripts, on a simulated cluster: pipes, time-outs, odd words."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kafkasim.commands import ENVIRONMENT, shell
from tests.kafkasim.documents import PROGRAM, document, finalized, release
from tests.kafkasim.test_process import heard, say, simulator

INVALID = "invalid security.protocol: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        yield heard(process)


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_closed_pipe_does_not_change_the_exit_code(cluster: dict[str, Any], form: str) -> None:
    done = shell(f"{PROGRAM} describe --bootstrap-server {cluster['bootstrapServers']} -o {form} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["describe --bootstrap-server {}", "describe --apis --bootstrap-server {}"])
def test_json_and_yaml_are_the_same_document(cluster: dict[str, Any], words: str) -> None:
    line = f"{PROGRAM} {words.format(cluster['bootstrapServers'])} -o "
    one, other = json.loads(shell(f"{line} json").stdout), yaml.safe_load(shell(f"{line} yaml").stdout)
    one["source"], other["source"] = one["source"]["kind"], other["source"]["kind"]
    assert one == other


def test_a_blocked_apply_ends_with_exit_code_4_though_its_output_is_not_read(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    document(tmp_path, cluster, {"metadata.version": 99})
    assert shell(f"{PROGRAM} apply -f levels.yaml 2>&1 | true", tmp_path).returncode == 4


def test_apply_carries_out_all_changes_though_its_progress_is_not_read(cluster: dict[str, Any], tmp_path: Path) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29, "share.version": 1, "group.version": 1})
    done = shell(f"{PROGRAM} apply -f levels.yaml 2>&1 >/dev/null | head -1", tmp_path)
    assert done.returncode == 0
    assert shell(f"{PROGRAM} plan -f {path} -o json | grep -c InSync").returncode == 0
    assert "intent" not in path.with_suffix(".status.yaml").read_text()


def test_describe_succeeds_with_a_closed_standard_output(cluster: dict[str, Any]) -> None:
    words = f"describe --bootstrap-server {cluster['bootstrapServers']} -o json"
    assert shell(f"{PROGRAM} {words} >&-").returncode == 0


@pytest.mark.parametrize("timeout", ["0", "0s", "9" * 400 + "h", "-1", "x"])
def test_an_invalid_timeout_is_refused_before_anything_is_sent(
    cluster: dict[str, Any], tmp_path: Path, timeout: str
) -> None:
    document(tmp_path, cluster, {"streams.version": 1})
    done = shell(f"{PROGRAM} apply -f levels.yaml --timeout={timeout}", tmp_path)
    assert done.returncode == 64
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_timeout_bounds_a_single_reconciliation(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        path = document(tmp_path, {"bootstrapServers": address}, {"group.version": 1})
        done = subprocess.run(
            [sys.executable, "-m", "kafkafeatures", "apply", "-f", str(path), "--timeout", "1s"],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=15, check=False,
        )  # fmt: skip  # the request timeout is 30 s
    assert done.returncode == 5
    assert "timed out; run the command again to continue" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("describe --bootstrap-server ,", 64, "are empty; expected host:port"),
        ("describe --bootstrap-server [::1:9092", 64, "invalid address '[::1:9092': expected host:port"),
        ("describe --bootstrap-server a..b:9092", 64, "invalid host name 'a..b'"),
        ("describe --bootstrap-server user:canary@h:9092", 64, "invalid address: it contains a user"),
        ("apply -f /usr", 64, "/usr: no KafkaFeatures document found"),
        ("apply -f . -f levels.yaml", 64, "levels.yaml: default/x is in levels.yaml as well; remove one"),
        ("apply -f nothing.yaml", 64, "nothing.yaml: No such file or directory"),
        ("apply -f levels.yaml --state levels.yaml", 64, "is the document itself"),
        ("apply -f levels.yaml --approve sha256:12", 64, "invalid plan hash"),
        ("unregister --broker x --bootstrap-server h:1", 64, "invalid node id 'x'"),
    ],
)
def test_invalid_arguments_give_one_line_on_stderr(
    cluster: dict[str, Any], tmp_path: Path, words: str, code: int, message: str
) -> None:
    document(tmp_path, cluster, {"streams.version": 1})
    done = shell(f"{PROGRAM} {words}", tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
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
def test_an_error_message_does_not_repeat_a_misplaced_password(
    cluster: dict[str, Any], tmp_path: Path, sasl: dict[str, Any]
) -> None:
    document(tmp_path, cluster, {"streams.version": 1}, sasl=sasl)
    done = shell(f"{PROGRAM} plan -f levels.yaml", tmp_path)
    assert done.returncode == 64
    assert "spec.cluster.sasl" in done.stderr
    assert "canary" not in done.stderr + done.stdout


@pytest.mark.parametrize("file", ["-f -", "-f /dev/stdin", "-f <(cat levels.yaml)"])
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_document_from_standard_input_leaves_no_file(
    cluster: dict[str, Any], tmp_path: Path, command: str, file: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29})
    before = sorted(Path("/dev").iterdir())
    done = shell(f"{PROGRAM} {command} {file} < levels.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one for one in tmp_path.iterdir() if one.name != ".hypothesis"] == [path]  # of the codec, in tests
    assert sorted(Path("/dev").iterdir()) == before


def test_apply_in_a_pipe_prints_the_blocker_of_each_group_of_nodes_once(tmp_path: Path) -> None:
    flags = ("--release", "4.2", "--old-broker", "2=4.0", "--old-broker", "3=4.0", "--metadata-version", "25")
    with simulator(*flags) as process:
        document(tmp_path, heard(process), {"metadata.version": 29, "share.version": 1, "streams.version": 1})
        done = shell(f"{PROGRAM} apply -f levels.yaml --timeout 5s", tmp_path)
    assert done.returncode == 5
    lines = done.stderr.splitlines()
    at = lines.index("  NodeRange: 2 brokers (2, 3), Kafka 4.0")
    assert lines[at : at + 4] == [
        "  NodeRange: 2 brokers (2, 3), Kafka 4.0",
        "    metadata.version 7-25 (up to 4.0-IV3); 29 (4.2-IV1) is required",
        "    share.version, streams.version not supported; 1 is required",
        "    upgrade Kafka on these brokers",
    ]
    assert done.stderr.count("upgrade Kafka on these brokers") == 1


def test_apply_in_a_pipe_ends_with_a_line_that_it_is_blocked_and_changed_nothing(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    document(tmp_path, cluster, {"metadata.version": 99})
    done = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    connection, plan, step, *_, first, blocker, remedy, last = done.stderr.splitlines()
    assert connection.startswith(f"cluster at {cluster['bootstrapServers']}; ")
    assert (plan.startswith("Plan sha256:"), first) == (True, "Blockers")
    assert re.match(r"  1\. metadata\.version \d+ \(\S+\) -> 99  irreversible$", step)
    assert blocker.startswith("  NodeRange: no node supports metadata.version 99; ")
    assert remedy == "    choose a level that every node supports, or upgrade Kafka on all nodes"
    assert last == "default/x: blocked by UnsupportedLevel; nothing was changed; see docs/runbooks/UnsupportedLevel.md"


def test_apply_in_a_pipe_prints_a_waiting_plan_and_the_command_to_approve_it_once(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    release(tmp_path, cluster)
    done = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    connection, plan, *steps, how, last = done.stderr.splitlines()
    assert done.returncode == 3
    assert connection.startswith(f"cluster at {cluster['bootstrapServers']}; ")
    assert plan.startswith("Plan sha256:")
    assert all(one.startswith("  ") for one in steps)
    assert how.startswith(
        "kafkafeatures: a plan is waiting for approval; to approve: kafkafeatures apply -f levels.yaml "
    )
    assert last == "default/x: ApprovalRequired; nothing was changed; see docs/runbooks/ApprovalRequired.md"


def test_apply_in_mode_observe_ends_with_a_line_that_nothing_was_changed_and_how_to_change_it(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 27})
    body = json.loads(path.read_text())
    body["spec"]["mode"] = "Observe"
    path.write_text(json.dumps(body))
    done = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    last_line = "default/x: Observed: to carry out the plan, set spec.mode: Apply; nothing was changed"
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (0, "", last_line)


@pytest.mark.parametrize(("levels", "code"), [({"metadata.version": 99}, 4), ({"metadata.version": 29}, 0)])
@pytest.mark.parametrize(("flags", "begin"), [("", ""), ("-o yaml", "apiVersion:"), ("-o json", "{")])
def test_apply_in_a_pipe_prints_its_document_only_if_o_asks_for_it(
    cluster: dict[str, Any], tmp_path: Path, levels: dict[str, int], code: int, flags: str, begin: str
) -> None:
    document(tmp_path, cluster, levels)
    done = shell(f"{PROGRAM} apply -f levels.yaml {flags}", tmp_path)
    assert done.returncode == code, done.stderr
    assert (bool(done.stdout), done.stdout.startswith(begin)) == (bool(flags), True)


def test_apply_in_a_pipe_reports_drift_once(tmp_path: Path) -> None:
    with simulator("--release", "4.2", "--metadata-version", "29", "--feature", "share.version=1") as process:
        document(tmp_path, heard(process), {"share.version": 1})
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        say(process, "set share.version 0")
        done = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    assert done.returncode == 4
    assert done.stderr.count("was changed outside KafkaFeatures from 1 to 0") == 1


@pytest.mark.parametrize("form", ["table", "json"])
def test_apply_dry_run_prints_the_same_as_plan_and_writes_no_file(
    cluster: dict[str, Any], tmp_path: Path, form: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29, "streams.version": 1})
    dry = shell(f"{PROGRAM} apply -f levels.yaml --dry-run{'' if form == 'table' else ' -o json'}", tmp_path)
    plan = shell(f"{PROGRAM} plan -f levels.yaml -o {form}", tmp_path)
    assert "streams.version 0 -> 1" in dry.stdout
    assert (dry.returncode, dry.stderr) == (plan.returncode, plan.stderr) == (0, "")
    assert _without_offsets(dry.stdout) == _without_offsets(plan.stdout)
    assert list(tmp_path.iterdir()) == [path]
    assert finalized(cluster, "streams.version") == 0


@pytest.mark.parametrize(("form", "begins"), [("svg", "<svg "), ("html", "<!doctype html>")])
def test_a_plan_is_drawn_as_a_picture_or_a_page_with_its_exit_code(
    cluster: dict[str, Any], tmp_path: Path, form: str, begins: str
) -> None:
    document(tmp_path, cluster, {"metadata.version": 99})
    drawn = shell(f"{PROGRAM} plan -f levels.yaml -o {form}", tmp_path)
    assert (drawn.returncode, drawn.stderr) == (4, "")
    assert drawn.stdout.startswith(begins)
    assert "Blockers" in drawn.stdout


@pytest.mark.parametrize("form", ["svg", "html"])
def test_only_one_document_is_drawn_as_a_picture_or_a_page(cluster: dict[str, Any], tmp_path: Path, form: str) -> None:
    body = json.loads(document(tmp_path, cluster, {"metadata.version": 99}).read_text())
    body["metadata"]["name"] = "other"
    body["spec"]["mode"] = "Observe"  # two documents in mode Apply for one cluster are refused before
    (tmp_path / "other.yaml").write_text(json.dumps(body))
    several = shell(f"{PROGRAM} plan -f levels.yaml -f other.yaml -o {form}", tmp_path)
    assert (several.returncode, several.stdout) == (64, "")
    assert f"-o {form} draws one document; these are 2" in several.stderr


@pytest.mark.parametrize(("levels", "code"), [({"metadata.version": 99}, 4), ({}, 3)])
def test_apply_with_dry_run_ends_with_the_code_of_plan(
    cluster: dict[str, Any], tmp_path: Path, levels: dict[str, int], code: int
) -> None:
    if levels:
        document(tmp_path, cluster, levels)
    else:
        release(tmp_path, cluster)
    assert [
        shell(f"{PROGRAM} {one}", tmp_path).returncode
        for one in ("apply --dry-run -f levels.yaml", "plan -f levels.yaml")
    ] == [code, code]


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_an_approval_in_the_document_for_another_plan_has_to_be_changed_in_the_document(
    cluster: dict[str, Any], tmp_path: Path, command: str
) -> None:
    """A hash on the command line does not replace the one in the document: each given hash must be that of the plan."""
    path = document(tmp_path, cluster, {})
    body = json.loads(path.read_text())
    changed = {"features": {"releaseVersion": "4.2"}, "approval": {"planHash": "sha256:00000000"}}
    path.write_text(json.dumps({**body, "spec": {**body["spec"], **changed}}))
    done = shell(f"{PROGRAM} {command} -f levels.yaml", tmp_path)
    assert done.returncode == 3
    message = "approve: set spec.approval.planHash of levels.yaml, which is of another plan, to sha256:"
    assert message in " ".join((done.stdout + done.stderr).split())
    assert "--approve" not in done.stdout + done.stderr


def _without_offsets(text: str) -> str:
    """The text without offsets, which grow between two commands."""
    return re.sub(r'offset"?:? [0-9]+', "offset", text)


@pytest.mark.parametrize(("properties", "code"), [("security.protocol=PLAINTEXT", 0), ("security.protocol=X", 64)])
@pytest.mark.parametrize("flags", ["--config -", "--config - --controller-config -"])
def test_client_properties_may_come_from_standard_input(
    cluster: dict[str, Any], tmp_path: Path, flags: str, properties: str, code: int
) -> None:
    words = f"describe --bootstrap-server {cluster['bootstrapServers']} {flags}"
    done = shell(f"echo {properties} | {PROGRAM} {words}", tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr == ("" if code == 0 else f"kafkafeatures: stdin: {INVALID}\n")


def test_a_document_from_standard_input_can_have_a_state_file(cluster: dict[str, Any], tmp_path: Path) -> None:
    document(tmp_path, cluster, {"metadata.version": 29})
    assert shell(f"{PROGRAM} apply -f - --state kept.yaml < levels.yaml", tmp_path).returncode == 0
    assert "InSync" in (tmp_path / "kept.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [", "stdin: line 1: invalid YAML"),
        ("a: \x07\n", "stdin: invalid YAML: U+0007 at position 3 is not allowed"),
        ('"a\\nb": 1\n', "stdin: a b: unknown field"),
        ("a: \xff", "stdin: invalid YAML"),
    ],
)
def test_each_problem_of_a_document_from_standard_input_has_a_line_of_its_own(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "x").write_bytes(text.encode("latin-1"))
    done = shell(f"{PROGRAM} plan -f - < x", tmp_path)
    assert done.returncode == 64
    lines = done.stderr.splitlines()
    assert all(line.startswith("kafkafeatures: stdin: ") for line in lines), done.stderr
    assert any(message in line for line in lines), done.stderr
    assert text.startswith('"') or len(lines) == 1  # only the document with an unknown field has several problems


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("folder", "the state file folder is a directory; name another with --state FILE"),
        ("nowhere/state", "the directory nowhere of the state file does not exist"),
        ("/dev/null", "the state file /dev/null is not a regular file"),
        ("levels.yaml", "levels.yaml is the document itself, not its state file"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_state_path_that_cannot_be_a_file_is_an_error_and_leaves_no_file(
    cluster: dict[str, Any], tmp_path: Path, command: str, state: str, message: str
) -> None:
    path = document(tmp_path, cluster, {"metadata.version": 29})
    folder = tmp_path / "folder"
    folder.mkdir()
    done = shell(f"{PROGRAM} {command} -f levels.yaml --state {state}", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert message in done.stderr
    assert sorted(one for one in tmp_path.rglob("*") if ".hypothesis" not in one.parts) == sorted([folder, path])
    assert not Path("/dev/null.lock").exists()
