"""`kafkafeatures demo`: the story on a simulated cluster, told by the shipped commands themselves.

It starts the simulator (`python -m kafkasim`) as a process, then runs `kafkafeatures describe` and `apply` as processes
and shows each command line with its own output. It decides nothing about clusters: it only checks that every step did
what the story says, and ends with exit code 1 where one did not. It never touches a cluster that is not its own.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkafeatures.cli.exit_codes import CommandFailed, Exit

STORIES = ("levels",)
_START_SECONDS = 15.0
_COMMAND_SECONDS = 60.0
_WIDEST = 100
_SOURCE_ROOT = Path(__file__).parents[2]

_CLUSTER = ("--release", "4.2", "--old-broker", "2=4.0", "--metadata-version", "25")
_DOCUMENT = """\
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: demo}
spec:
  cluster:
    bootstrapServers: "%(bootstrapServers)s"
    bootstrapControllers: "%(bootstrapControllers)s"
  features:
    levels:
      - {name: metadata.version, level: "4.2-IV1"}
      - {name: group.version, level: 1}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--story`, for the stories there are."""
    parser.add_argument("--story", choices=STORIES, default=STORIES[0], help="which story (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Tell the story. Raises CommandFailed (exit 1) when a step does something else than the story says."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkafeatures-demo-") as folder, _simulator() as simulator:
        _levels(Stage(Path(folder)), simulator)
    _tell(f"The end, after {time.monotonic() - began:.0f} s. The simulated cluster is gone; nothing is left behind.")
    return Exit.DONE


def _levels(stage: Stage, simulator: Simulator) -> None:
    """One old broker stands in the way of a level; it is upgraded, and the levels are raised."""
    servers = str(simulator.greeting["bootstrapServers"]).split(",")[0]
    describe = ("describe", "--bootstrap-server", servers)

    _tell(
        "This is a SIMULATED cluster: three controllers and three brokers, played by one Python process on 127.0.0.1. "
        "It speaks Kafka's protocol; no Kafka runs here. The commands below are the real ones."
    )
    _tell(
        "1. Look at it. All nodes run Kafka 4.2 but broker 2, which somebody forgot at 4.0; "
        "the cluster is still at metadata.version 25 (4.0-IV3)."
    )
    stage.run(describe, code=Exit.DONE, shows=("metadata.version", "7-25"))

    document = stage.write("levels.yaml", _DOCUMENT % simulator.greeting)
    apply = ("apply", "-f", document.name)
    _tell("2. Ask for the levels of 4.2. Broker 2 could not live with them, so nothing is sent, and it is named.")
    stage.show_file(document)
    stage.run(apply, code=Exit.BLOCKED, shows=("broker 2", "7-25"), into="status.yaml")

    _tell("3. Somebody upgrades broker 2 to Kafka 4.2. (Here: a word to the simulator.)")
    simulator.do("upgrade broker 2 4.2")

    _tell("4. The same document again: every node can, so both levels are raised, one by one, and read back.")
    raised = ("metadata.version 25 -> 29", "group.version 0 -> 1")
    stage.run(apply, code=Exit.DONE, shows=raised, into="status.yaml")

    _tell("5. Look again: the levels are finalized.")
    stage.run(describe, code=Exit.DONE, shows=("29",))
    _finalized(stage, servers, {"metadata.version": 29, "group.version": 1})


def _finalized(stage: Stage, servers: str, wanted: dict[str, int]) -> None:
    """The last proof is not a look at a picture but the document."""
    output = stage.quiet(("describe", "--bootstrap-server", servers, "-o", "json"))
    found = {feature["name"]: feature.get("finalized") for feature in json.loads(output)["features"]}
    wrong = {name: found.get(name) for name, level in wanted.items() if found.get(name) != level}
    if wrong:
        raise _not_the_story(f"the levels should be {wanted}, but they are {wrong}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Runs and shows commands, in a folder of their own."""

    folder: Path

    def run(self, words: Sequence[str], *, code: Exit, shows: Sequence[str], into: str | None = None) -> None:
        """Show a command and its output; CommandFailed unless it ends with `code` and shows these words.

        `into`: a file for the standard output, as a shell would redirect it.
        """
        _print(f"$ kafkafeatures {' '.join(words)}{f' > {into}' if into else ''}")
        done = self._execute(words, subprocess.PIPE if into else subprocess.STDOUT)
        shown = done.stdout
        if into:
            self.write(into, done.stdout)
            shown = done.stderr
        _print(shown)
        _print(f"(exit code {done.returncode})\n")
        if done.returncode != code:
            raise _not_the_story(f"`{words[0]}` ended with {done.returncode} instead of {int(code)}")
        if missing := [word for word in shows if word not in " ".join(shown.split())]:
            raise _not_the_story(f"`{words[0]}` does not mention {', '.join(missing)}")

    def quiet(self, words: Sequence[str]) -> str:
        """The standard output of a command that is not shown."""
        done = self._execute(words, subprocess.PIPE)
        if done.returncode != Exit.DONE:
            raise _not_the_story(f"`{words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def show_file(self, path: Path) -> None:
        """As `cat` would."""
        _print(f"$ cat {path.name}\n{path.read_text()}")

    def _execute(self, words: Sequence[str], errors: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kafkafeatures", *words]
        try:
            return subprocess.run(  # noqa: S603 - our own command with our own words
                command, cwd=self.folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True, timeout=_COMMAND_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _not_the_story(f"`{words[0]}` did not end within {_COMMAND_SECONDS:.0f} s") from None


@dataclass(frozen=True, slots=True)
class Simulator:
    """The process of the simulated cluster, and what it said when it was ready."""

    process: subprocess.Popen[str]
    greeting: dict[str, Any]

    def do(self, request: str) -> None:
        """A control request; CommandFailed when the simulator cannot."""
        if self.process.stdin is None:
            raise _not_the_story("the simulator takes no requests")
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = _line(self.process)
        if not answer.get("done"):
            raise _not_the_story(f"the simulator cannot {request}: {answer.get('error')}")


@contextmanager
def _simulator() -> Iterator[Simulator]:
    command = [sys.executable, "-m", "kafkasim", "--exit-with-stdin", *_CLUSTER]
    with subprocess.Popen(  # noqa: S603 - our own simulator
        command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            greeting = _line(process)
            if not greeting.get("simulated"):
                raise _not_the_story("the simulator does not say that it is one")
            yield Simulator(process, greeting)
        finally:
            process.terminate()


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next JSON line of the simulator. It writes whole lines, so one that begins also ends."""
    if process.stdout is not None and select.select([process.stdout], [], [], _START_SECONDS)[0]:
        line = process.stdout.readline()
        if line:
            document: dict[str, Any] = json.loads(line)
            return document
    raise _not_the_story("the simulator did not start or ended" if process.poll() is not None else "no answer")


def _environment() -> dict[str, str]:
    """Ours, with the width of our terminal, and with its colours where it has any."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SOURCE_ROOT), environment.get("PYTHONPATH"))))
    environment["COLUMNS"] = str(_width())
    if sys.stdout.isatty() and "NO_COLOR" not in environment:
        environment["FORCE_COLOR"] = "1"
    return environment


def _width() -> int:
    return min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)


def _tell(text: str) -> None:
    import textwrap

    _print(textwrap.fill(text, width=min(_width(), 80), initial_indent="# ", subsequent_indent="# ") + "\n")


def _print(text: str) -> None:
    print(text, flush=True)


def _not_the_story(why: str) -> CommandFailed:
    return CommandFailed(f"the demo went another way than its story: {why}; please report it", Exit.FAILED)
