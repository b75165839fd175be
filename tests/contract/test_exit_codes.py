"""Exit codes: one table with their meanings, and 64 for each file that a flag names and that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.cli.shell.commands import every_command
from kafkafeatures.cli.shell.exit_codes import MEANINGS, SEVERITY, Exit
from tests.kafkasim.commands import command
from tests.started import ROOT

FILE_FLAGS = ("-f", "--config", "--controller-config", "--zookeeper-config", "--kubeconfig")
LINES = """
describe -f nowhere
describe --bootstrap-server h:1 --config nowhere
describe --bootstrap-server h:1 --controller-config nowhere
describe --zookeeper h:1 --zookeeper-config nowhere
describe --zookeeper 127.0.0.1:1 --bootstrap-server h:1 --config nowhere
describe --from nowhere
describe --profile nowhere
check -f nowhere
check --bootstrap-server h:1 --config nowhere
check --bootstrap-server h:1 --controller-config nowhere
check --rights --mode ibp --zookeeper h:1 --bootstrap-server h:1 --zookeeper-config nowhere
plan -f nowhere
plan -f /dev/null --config nowhere
plan -f /dev/null --controller-config nowhere
plan orders --kubeconfig nowhere
apply -f nowhere
apply -f /dev/null --config nowhere
apply -f /dev/null --controller-config nowhere
upgrade --release 4.1 --yes --bootstrap-server h:1 --config nowhere
upgrade --release 4.1 --yes --bootstrap-server h:1 --controller-config nowhere
init --bootstrap-server h:1 --config nowhere
init --strimzi orders --kubeconfig nowhere
describe --strimzi orders --kubeconfig nowhere
downgrade --feature group.version=0 --bootstrap-server h:1 --config nowhere
downgrade --feature group.version=0 --bootstrap-server h:1 --controller-config nowhere
init --bootstrap-server h:1 --controller-config nowhere
unregister --broker 1 --yes -f nowhere
unregister --broker 1 --yes --bootstrap-server h:1 --config nowhere
unregister --broker 1 --yes --bootstrap-server h:1 --controller-config nowhere
migration compare -f nowhere
migration compare --zookeeper h:1 --bootstrap-server h:1 --config nowhere
migration compare --zookeeper h:1 --bootstrap-server h:1 --controller-config nowhere
migration compare --zookeeper h:1 --bootstrap-server h:1 --zookeeper-config nowhere
clients evidence status -f nowhere
clients evidence status --bootstrap-server h:1 --config nowhere
clients evidence status --bootstrap-server h:1 --controller-config nowhere
clients check --release 4.1 --evidence nowhere
clients rejected nowhere
log decode nowhere
log verify nowhere
log state nowhere
log timeline nowhere
log ghosts nowhere
pipeline run --config nowhere
pipeline gate --release 4.1 --config nowhere
serve --kubeconfig nowhere
serve -f nowhere
serve --bootstrap-server h:1 --config nowhere
serve --bootstrap-server h:1 --controller-config nowhere
list --kubeconfig nowhere
status orders --kubeconfig nowhere
wait orders --kubeconfig nowhere
reconcile orders --kubeconfig nowhere
approve orders --yes --kubeconfig nowhere
suspend orders --kubeconfig nowhere
resume orders --kubeconfig nowhere
restart orders --kubeconfig nowhere
report orders --kubeconfig nowhere
report orders --html page.html --bootstrap-server h:1 --config nowhere
report orders --html page.html --bootstrap-server h:1 --controller-config nowhere
""".strip().splitlines()
"""Commands with a file or a profile that does not exist."""


def test_every_exit_code_has_a_meaning_and_all_but_the_interrupt_a_severity() -> None:
    assert set(MEANINGS) == set(Exit)
    assert {*SEVERITY, Exit.INTERRUPTED} == set(Exit)


def test_the_reference_has_the_table_of_exit_codes() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert all(f"| {int(code)} | {meaning} |" in page for code, meaning in MEANINGS.items())


@pytest.mark.parametrize("line", LINES)
def test_a_file_that_does_not_exist_is_wrong_usage_and_one_line(line: str, tmp_path: Path) -> None:
    done = command(line.split(), tmp_path)
    assert done.returncode == Exit.USAGE, done.stderr
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr
    assert (done.stdout, list(tmp_path.iterdir())) == ("", [])


def test_every_flag_of_a_command_for_such_a_file_is_tried() -> None:
    tried = {(line.split()[0], word) for line in LINES for word in line.split()}
    flags = {
        (name, flag)
        for name, _, actions in every_command()
        for action in actions
        for flag in action.option_strings
        if flag in FILE_FLAGS
    }
    assert flags - tried == {("check", "--kubeconfig")}, "which only is used once the cluster was read"
