"""`kafkafeatures demo`: a walkthrough on a simulated cluster, with the commands that users have.

It starts the simulator (`python -m kafkasim`) as a process, runs the commands as processes too, and shows each command
line with its output. It checks that every step did what the story says, and ends with exit code 1 otherwise. It
connects to no other cluster. The stories roll, migrate, clients and fleet are modules beside this one.
"""

from __future__ import annotations

import argparse
import json
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from kafkafeatures.cli.demo.stage import Demonstration, environment
from kafkafeatures.cli.demo.text import not_the_story, show, tell, title, turn_the_page
from kafkafeatures.cli.shell.exit_codes import Exit

_START_SECONDS = 15.0
"""Time limit for each answer of the simulator, the first of which comes when it has started."""

# flags of the simulator for the clusters of the stories
_MIXED = ("--release", "4.2", "--old-broker", "2=4.0", "--ghost-broker", "4=4.0", "--metadata-version", "25")
_OLD = ("--release", "3.9")
_RAISED = ("--release", "4.2", "--metadata-version", "29", "--feature", "share.version=1")
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
      - {name: share.version, level: 1}
"""
_CONSENT = "share.version:1->0"
"""The consent for the downgrade in the story `back`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flag `--story`."""
    parser.add_argument(
        "--story",
        choices=(*STORIES, _ROLL, _MIGRATE, _FLEET, _ALL),
        default=_FIRST,
        help=f"one part of the walkthrough (default: {_FIRST}; {_ALL}: {', '.join((*LONGER, _ROLL))})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Tell the story. Raises CommandFailed (exit 1) when a step does something else than the story says."""
    began, program = time.monotonic(), _as_typed()
    if arguments.story == _FLEET:
        from kafkafeatures.cli.demo.fleet import tell_the_fleet

        tell_the_fleet()
        return Exit.DONE
    if arguments.story not in (_ROLL, _MIGRATE):
        _tell_over_the_wire(LONGER if arguments.story == _ALL else (arguments.story,))
    if arguments.story in (_ALL, _ROLL):
        from kafkafeatures.cli.demo.roll import tell_the_roll

        if arguments.story == _ALL:
            turn_the_page()
        tell_the_roll()
    elif arguments.story == _MIGRATE:
        from kafkafeatures.cli.demo.migrate import tell_the_migration

        tell_the_migration()
    if arguments.story == _FIRST:
        tell("The same for a cluster of your own, in this shell. Both commands only read:")
        flag = "--bootstrap-server HOST:PORT"
        show(f"  {program} describe {flag}\n  {program} check --release 4.2 {flag}\n")
    stories = ", ".join(f"{name} ({topic})" for name, topic in MORE.items() if name != arguments.story)
    took = time.monotonic() - began
    tell(
        f"Done after {took:.0f} s; the simulated cluster is stopped. More: {program} demo --story NAME, with {stories}."
    )
    return Exit.DONE


def _as_typed() -> str:
    """The command as a reader types it: by its name, or by its path if the name leads to another installation."""
    program = "kafkafeatures"
    path = str(Path(sys.executable).with_name(program))
    return program if shutil.which(program) == path else path.removeprefix(f"{Path.cwd()}/")


def _tell_over_the_wire(chosen: Sequence[str]) -> None:
    """Play these stories one after the other, on one simulated cluster that the commands connect to."""
    cluster = _OLD if _CLIENTS in chosen else _MIXED if {_FIRST, "cure"} & {*chosen} else _RAISED
    with tempfile.TemporaryDirectory(prefix="kafkafeatures-demo-") as folder, _simulator(cluster) as simulator:
        tell(
            "A SIMULATED cluster: three controllers and three brokers in one Python process on 127.0.0.1 speak Kafka's "
            "protocol. The commands are the real ones."
        )
        for number, name in enumerate(chosen):
            if number:
                turn_the_page()
            STORIES[name](Demonstration(Path(folder)), simulator)


def _upgrade(stage: Demonstration, simulator: Simulator) -> None:
    """Story `upgrade`: Kafka's own refusal, all blockers with their remedies, the remedies carried out, and the
    raise.
    """
    servers = _first_broker(simulator)
    flags = ("--release", "4.2", "--bootstrap-server", servers)
    tell(
        "Kafka was upgraded to 4.2, the finalized levels are still those of 4.0. `kafka-features.sh upgrade "
        "--release-version 4.2` is refused, with the first reason that the controller finds:"
    )
    plan = ("plan", "-f", stage.write("levels.yaml", _DOCUMENT % simulator.greeting).name, "-o", "json")
    tell(json.loads(stage.quiet(plan, code=Exit.BLOCKED))["serverVerdict"]["message"], indent="  ")
    tell("Here is every feature on every node, with all blockers, each with what to do:")
    blockers = ("GhostRegistration: broker 4", "NodeRange: broker 2", "upgrade Kafka on broker 2")
    stage.run(("describe", "--bootstrap-server", servers), code=Exit.DONE, shows=("7-25 !", *blockers))

    turn_the_page()
    tell("Broker 4 no longer exists, and is unregistered. Broker 2 gets Kafka 4.2 (here: a command to the simulator).")
    _remove_blockers(stage, simulator)
    tell("Now the levels can be raised; each is read back from every node.")
    raised = ("metadata.version 25 -> 29", "share.version 0 -> 1", "InSync")
    stage.run(("upgrade", *flags, "--yes"), code=Exit.DONE, shows=raised)
    _check_finalized(stage, servers, {"metadata.version": 29, "share.version": 1})


def _remove_blockers(stage: Demonstration, simulator: Simulator) -> None:
    """Unregister the ghost, and upgrade the old broker."""
    unregister = ("unregister", "--broker", "4", "--yes", "--bootstrap-server", _first_broker(simulator))
    stage.run(unregister, code=Exit.DONE, shows=("broker 4 is no longer registered",))
    simulator.do("upgrade broker 2 4.2")


def _cure(stage: Demonstration, simulator: Simulator) -> None:
    """Story `cure`: an old broker and a ghost registration block the raise; both are removed, and the levels are
    raised.
    """
    servers = _first_broker(simulator)
    title("Raise a release")
    tell(
        "All nodes run Kafka 4.2 except broker 2, which was forgotten at 4.0. Broker 4 was removed long ago but is "
        "still registered: a ghost registration. The levels are those of 4.0."
    )
    stage.run(("describe", "--bootstrap-server", servers), code=Exit.DONE, shows=("metadata.version", "7-25", "Ghost"))

    document = stage.write("levels.yaml", _DOCUMENT % simulator.greeting)
    tell("Request the levels of 4.2, as a plan first. All blockers are listed at once, with their remedies.")
    stage.show_file(document)
    plan = ("plan", "-f", document.name)
    stage.run(plan, code=Exit.BLOCKED, shows=("GhostRegistration: broker 4", "NodeRange: broker 2", "Plan: Blocked"))

    tell("Unregister the ghost, and upgrade broker 2. (Here: a command to the simulator.)")
    _remove_blockers(stage, simulator)

    tell("The plan has no blockers now. A step that is not safe to undo is marked; naming a level exactly approves it.")
    stage.run(plan, code=Exit.DONE, shows=("Plan: Changes", "downgrade may lose metadata"))
    raised = ("metadata.version 25 -> 29", "share.version 0 -> 1", "InSync")
    stage.run(("apply", "-f", document.name), code=Exit.DONE, shows=raised)
    _check_finalized(stage, servers, {"metadata.version": 29, "share.version": 1})


def _back(stage: Demonstration, simulator: Simulator) -> None:
    """Story `back`: a downgrade is refused without a consent, done with it, and the same consent is refused the second
    time.
    """
    servers = _first_broker(simulator)
    title("Downgrade")
    raised = _DOCUMENT % simulator.greeting
    lowered = raised.replace("share.version, level: 1", "share.version, level: 0")
    consent = f"  consents: ['{_CONSENT}']\n"
    apply = ("apply", "-f", "levels.yaml")
    tell("The document is reverted in Git. A finalized level is never downgraded by accident.")
    stage.write("levels.yaml", lowered)
    stage.run(apply, code=Exit.BLOCKED, shows=("is a downgrade", _CONSENT))

    tell("If the downgrade is intended, the document needs a consent for exactly this change:")
    stage.show(consent)
    stage.write("levels.yaml", lowered + consent)
    stage.run(apply, code=Exit.DONE, shows=("share.version 1 -> 0", "InSync"))
    _check_finalized(stage, servers, {"share.version": 0})

    tell("Raised again. The consent is still in Git, but a consent can be used once: a second revert is refused.")
    stage.write("levels.yaml", raised + consent)
    stage.run(apply, code=Exit.DONE, shows=("share.version 0 -> 1", "InSync"))
    stage.write("levels.yaml", lowered + consent)
    stage.run(apply, code=Exit.BLOCKED, shows=("was already used",))
    stage.write("levels.yaml", raised)
    _check_finalized(stage, servers, {"share.version": 1})


def _drift(stage: Demonstration, simulator: Simulator) -> None:
    """Story `drift`: a level that had been reached is changed outside KafkaFeatures: it is reported, and not undone."""
    title("Drift")
    stage.write("levels.yaml", _DOCUMENT % simulator.greeting)
    apply = ("apply", "-f", "levels.yaml")
    tell("Everything is in sync.")
    stage.run(apply, code=Exit.DONE, shows=("InSync",))
    tell("share.version is downgraded with kafka-features.sh. (Here: a command to the simulator.)")
    simulator.do("set share.version 0")
    tell("The drift is reported. Nothing is changed back unless the document says drift.onDrift: Correct.")
    stage.run(apply, code=Exit.BLOCKED, shows=("Drifted", "from 1 to 0"))
    _check_finalized(stage, _first_broker(simulator), {"share.version": 0})


def _clients(stage: Demonstration, simulator: Simulator) -> None:
    """Story `clients`: old clients are found by the counters of brokers, before an upgrade."""
    from kafkafeatures.cli.demo.clients import tell_of_clients

    tell_of_clients(stage, _first_broker(simulator))


_FIRST, _ROLL, _MIGRATE, _CLIENTS, _FLEET, _ALL = "upgrade", "roll", "migrate", "clients", "fleet", "all"
LONGER = ("cure", "back", "drift")
"""Stories of `all`, besides `roll`; each continues from where the one before it ended."""
STORIES = {_FIRST: _upgrade, "cure": _cure, "back": _back, "drift": _drift, _CLIENTS: _clients}
MORE = {
    "cure": "the same with a plan",
    "back": "a downgrade",
    "drift": "a level that others change",
    _ROLL: "restarts",
    _MIGRATE: "ZooKeeper to KRaft",
    _CLIENTS: "old clients before an upgrade",
    _FLEET: "many clusters",
}
"""Topics of the stories other than the first one."""


def _first_broker(simulator: Simulator) -> str:
    """The address of the first broker, as bootstrap server."""
    return str(simulator.greeting["bootstrapServers"]).split(",")[0]


def _check_finalized(stage: Demonstration, servers: str, expected: dict[str, int]) -> None:
    """Check the finalized levels in the JSON of `describe`. Raises CommandFailed if they differ."""
    output = stage.quiet(("describe", "--bootstrap-server", servers, "-o", "json"))
    levels = {feature["name"]: feature.get("finalized") for feature in json.loads(output)["features"]}
    wrong = {name: levels.get(name) for name, level in expected.items() if levels.get(name) != level}
    if wrong:
        raise not_the_story(f"the levels should be {expected}, but they are {wrong}")


class Simulator(Struct, frozen=True):
    """The process of the simulated cluster. `greeting`: the JSON that it prints when it is ready, with its
    addresses.
    """

    process: subprocess.Popen[str]
    greeting: dict[str, Any]

    def do(self, request: str) -> None:
        """Send a control request to the simulator. Raises CommandFailed if it fails."""
        if self.process.stdin is None:
            raise not_the_story("the simulator takes no requests")
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = _line(self.process)
        if not answer.get("done"):
            raise not_the_story(f"the simulator cannot {request}: {answer.get('error')}")


@contextmanager
def _simulator(cluster: Sequence[str]) -> Iterator[Simulator]:
    """A simulator that runs while this is entered. `cluster`: its flags."""
    command = [sys.executable, "-m", "kafkasim", "--exit-with-stdin", *cluster]
    with subprocess.Popen(  # noqa: S603 - our own simulator
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            greeting = _line(process)
            if not greeting.get("simulated"):
                raise not_the_story("the simulator did not identify itself")
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
    raise not_the_story("the simulator did not start or ended" if process.poll() is not None else "no answer")
