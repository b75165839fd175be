"""Ctrl-C at any instant of any command: exit code 130, and not a word but what was sent."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from kafkafeatures.cli.shell.commands import COMMANDS
from kafkafeatures.cli.shell.main import main
from tests.amounts import SOAK, some
from tests.kafkafeatures.terminal import PROGRAM, environment, in_terminal
from tests.kafkasim.test_process import heard, simulator
from tests.started import ROOT

# Runs the program as Python does, and sends itself SIGINT at the n-th of the things that Python tells its auditors of
# (imports, files, sockets, threads, ...), counted from the program's first instruction. Writes how many there were.
WITH_SIGINT = """
import os, runpy, signal, sys
entry, at, *words = sys.argv[1:]
seen, leave = -1, os._exit
def leaves(code):
    os.write(3, str(seen).encode())
    leave(code)
os._exit = leaves
def audit(event, details):
    global seen
    if seen < 0:
        if event == "exec" and details[0].co_filename.endswith("kafkafeatures/__main__.py"):
            seen = 0
    else:
        seen += 1
        if seen == int(at):
            signal.raise_signal(signal.SIGINT)
sys.addaudithook(audit)
sys.argv = ["kafkafeatures", *words]
if entry:
    sys.exit(getattr(__import__("kafkafeatures.__main__", fromlist=["-"]), entry)())
runpy.run_module("kafkafeatures", run_name="__main__", alter_sys=True)
"""
DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: a}
spec: {cluster: {bootstrapServers: "127.0.0.1:1"}, features: {levels: [{name: group.version, level: 1}]}}
"""
NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
WORDS = {
    "describe": NOWHERE,
    "check": NOWHERE,
    "plan": ("-f", "levels.yaml"),
    "apply": ("-f", "levels.yaml"),
    "upgrade": ("--release", "4.1", "--yes", *NOWHERE),
    "downgrade": ("--feature", "group.version=0", "--yes", *NOWHERE),
    "init": NOWHERE,
    "migration": ("settings", "--to", "DualWrite", "--zookeeper", "127.0.0.1:1", *NOWHERE),
    "unregister": ("--broker", "1", *NOWHERE),
    "completion": ("bash",),
    "demo": ("--story", "drift"),
    "version": (),
    "clients": ("check", "--release", "4.1", "--evidence", ".", *NOWHERE),
    "log": ("decode", "levels.yaml"),
    "pipeline": ("run", "--config", "levels.yaml"),
    "run": (),
    "serve": (),
    "simulate": ("--metadata-version", "29", "--ghost-broker", "4=4.0"),  # no such cluster can be, so it ends
    "suspend": ("a",),
    "resume": ("a",),
    "restart": ("a",),
    "list": (),
    "status": ("a",),
    "wait": ("a",),
    "reconcile": ("a",),
    "approve": ("a", "--yes"),
    "report": ("a",),
}
PROGRAMS = [("", command, *WORDS[command]) for command in COMMANDS]
PROGRAMS += [
    ("",),
    ("", "--help"),
    ("main", "version"),
    ("complete", "describe", ""),
]
INSTANTS = 4 if SOAK else 1
NEVER = 10**9


def interrupted(folder: Path, at: int, entry: str, *words: str, before: tuple[str, ...] = ()) -> tuple[int, str, int]:
    """(exit code, what was output on stderr, how much happened)."""
    ours, theirs = os.pipe()
    program = (sys.executable, "-c", f"import os; os.dup2({theirs}, 3)\n{WITH_SIGINT}", entry, str(at), *words)
    done = subprocess.run(
        (*before, *program), cwd=folder, env=environment(KUBECONFIG="/dev/null", HOME=str(folder)), pass_fds=(theirs,),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    with os.fdopen(ours) as happened:
        return done.returncode, done.stderr, int(happened.read() or -1)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile all modules before, so that no run compiles what the next one only reads."""
    compileall.compile_dir(ROOT / "operator", quiet=1)


@pytest.mark.parametrize("program", some(PROGRAMS), ids=lambda program: " ".join(filter(None, program[:2])))
def test_ctrl_c_ends_a_command_with_130_and_no_output_at_any_moment(tmp_path: Path, program: tuple[str, ...]) -> None:
    (tmp_path / "levels.yaml").write_text(DOCUMENT)
    _, _, happens = interrupted(tmp_path, NEVER, *program)
    random = Random(" ".join(program))
    # The number of events differs a little from run to run, so an instant in the last twentieth may never come.
    for at in (1, *sorted(random.sample(range(2, happens * 19 // 20), INSTANTS))):
        code, output, _ = interrupted(tmp_path, at, *program)
        told = {line for line in output.splitlines() if not line.startswith(("kafkafeatures: ", "unreachable: "))}
        assert (code, told) == (130, set()), f"at {at} of {happens}: {output}"


AFTER_THE_LAST_WAIT = """
import signal
from kafkafeatures.cli.cluster.connect import on_loop
signal.signal(signal.SIGINT, signal.default_int_handler)
async def work():
    signal.raise_signal(signal.SIGINT)
    %s
on_loop(work())
"""


@pytest.mark.parametrize("end", ["return 1", "raise ValueError"])
def test_ctrl_c_after_the_last_wait_of_a_command_is_not_lost(end: str) -> None:
    program = (sys.executable, "-c", AFTER_THE_LAST_WAIT % end)
    ended = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_process_started_with_sigint_ignored_keeps_ignoring_it(tmp_path: Path) -> None:
    """A job that a script started in the background."""
    ignoring = ("bash", "-c", 'trap "" INT; exec "$@"', "-")
    code, output, happened = interrupted(tmp_path, 100, "", "version", before=ignoring)
    assert (code, output) == (0, "")
    assert happened > 100  # else no signal was sent


def test_ctrl_c_at_a_prompt_ends_the_command(tmp_path: Path) -> None:
    with simulator("--ghost-broker", "4=4.0") as process:
        servers = str(heard(process)["bootstrapServers"])
        command = (*PROGRAM, "unregister", "--broker", "4", "--bootstrap-server", servers)
        ended = in_terminal(command, cwd=tmp_path, answers=[("Type its id", "\x03")])
    assert ended.code == 130
    assert ended.lines[-2].endswith("^C")
    assert ended.lines[-1] == "kafkafeatures: interrupted; nothing was changed"


# Runs the program, and sends it SIGINT at the instant at which its first change leaves the process.
WITH_SIGINT_AT_A_CHANGE = """
import runpy, signal, sys
from kafkafeatures.interrupts import SENT_STEPS
note = SENT_STEPS.note
def interrupted(step):
    note(step)
    signal.raise_signal(signal.SIGINT)
SENT_STEPS.note = interrupted
sys.argv = ["kafkafeatures", *sys.argv[1:]]
runpy.run_module("kafkafeatures", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (("apply", "-f", "levels.yaml", "--yes"), "group.version 0 -> 1"),
        (("unregister", "--broker", "4", "--yes", "-f", "levels.yaml"), "unregister broker 4"),
    ],
)
def test_ctrl_c_says_what_was_sent(words: tuple[str, ...], step: str, tmp_path: Path) -> None:
    with simulator("--ghost-broker", "4=4.2") as process:
        servers = str(heard(process)["bootstrapServers"])
        (tmp_path / "levels.yaml").write_text(DOCUMENT.replace("127.0.0.1:1", servers))
        ended = subprocess.run(
            (sys.executable, "-c", WITH_SIGINT_AT_A_CHANGE, *words), cwd=tmp_path, env=environment(),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.returncode == 130, ended
    last_line = ended.stderr.splitlines()[-1]
    assert last_line == (
        f"kafkafeatures: interrupted; 1 step was sent: {step}; see the result with kafkafeatures describe"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "-f", "levels.yaml"),
        ("approve", "orders"),
        ("reconcile", "orders"),
        ("restart", "orders"),
        ("resume", "orders"),
        ("suspend", "orders"),
    ],
    ids=lambda words: words[0],
)
def test_ctrl_c_in_a_command_that_can_change_something_says_that_nothing_was_changed(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkafeatures.cli.shell.main._run", interrupted)
    assert main(list(words)) == 130
    assert capsys.readouterr().err == "kafkafeatures: interrupted; nothing was changed\n"
