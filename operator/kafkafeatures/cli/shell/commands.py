"""The table of all commands: module, help line and flags of each.

Modules are named and not imported, so that a command only loads its own code.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

# command -> (module, one line of help). A module has `add_arguments(parser)` and `run(arguments) -> int`.
COMMANDS = {
    "describe": ("kafkafeatures.cli.describe", "show every feature on every node of a cluster"),
    "check": (
        "kafkafeatures.cli.document.check",
        "check that every node is healthy, and ready for a release; for scripts",
    ),
    "plan": ("kafkafeatures.cli.document.plan", "show what apply would do, and its blockers; changes nothing"),
    "apply": ("kafkafeatures.cli.document.apply", "bring a cluster to the levels of a document, and verify them"),
    "upgrade": (
        "kafkafeatures.cli.document.upgrade",
        "raise a cluster to the levels of a release, or single features, without a document",
    ),
    "downgrade": (
        "kafkafeatures.cli.document.downgrade",
        "downgrade features, without a document; shows what may be lost, and asks for consent",
    ),
    "init": ("kafkafeatures.cli.document.init", "print a document that matches a cluster, to adopt it"),
    "unregister": ("kafkafeatures.cli.cluster.unregister", "unregister a broker or a controller that no longer exists"),
    "migration": (
        "kafkafeatures.cli.migration.command",
        "show what the next phase of a migration from ZooKeeper to KRaft needs; changes nothing",
    ),
    "clients": (
        "kafkafeatures.cli.clients.command",
        "which clients break with a release: by counters of brokers, their request logs, and what they refused",
    ),
    "log": (
        "kafkafeatures.cli.log.command",
        "decode, check or summarize the files of a metadata log; needs no cluster and no JVM",
    ),
    "pipeline": (
        "kafkafeatures.cli.pipeline.command",
        "make tables of the metadata logs of many clusters, optionally on Spark",
    ),
    "list": ("kafkafeatures.cli.kube.list", "list the resources on Kubernetes; first those that require action"),
    "status": ("kafkafeatures.cli.kube.status", "show a resource on Kubernetes: its condition, plan and blockers"),
    "wait": (
        "kafkafeatures.cli.kube.wait",
        "wait until a resource on Kubernetes is ready, or a feature reaches a level",
    ),
    "reconcile": (
        "kafkafeatures.cli.kube.reconcile",
        "make the operator reconcile a resource now, and show the result",
    ),
    "approve": ("kafkafeatures.cli.kube.approve", "approve the plan that is waiting, and no other"),
    "suspend": (
        "kafkafeatures.cli.kube.suspend",
        "suspend a resource: the step in progress completes, no new step starts",
    ),
    "resume": ("kafkafeatures.cli.kube.resume", "resume a suspended resource"),
    "restart": ("kafkafeatures.cli.kube.restart", "restart the nodes of a resource, or one node, without a new image"),
    "report": ("kafkafeatures.cli.kube.report", "collect what an issue report needs about a resource; no secrets"),
    "serve": ("kafkafeatures.cli.serve.command", "show live pages in a browser, read-only, on 127.0.0.1 alone"),
    "run": ("kafkafeatures.cli.kube.run", "run the operator on Kubernetes"),
    "demo": ("kafkafeatures.cli.demo.command", "see a walkthrough on a simulated cluster; no Kafka, no network"),
    "simulate": ("kafkafeatures.cli.demo.simulate", "run a simulated cluster to try the commands on; no Kafka"),
    "completion": ("kafkafeatures.cli.shell.completion", "print completions for bash, zsh or fish"),
    "version": ("kafkafeatures.cli.shell.version", "show the version and the known Kafka releases"),
}

GROUPS = {
    "look": ("describe", "check", "plan", "init", "migration", "clients", "serve"),
    "change": ("apply", "upgrade", "downgrade", "unregister"),
    "Kubernetes": ("list", "status", "wait", "reconcile", "approve", "suspend", "resume", "restart", "report", "run"),
    "files and pipelines": ("log", "pipeline"),
    "more": ("demo", "simulate", "completion", "version"),
}
"""All commands by the groups in which the help lists them."""
CHANGING = (*GROUPS["change"], "reconcile", "approve", "suspend", "resume", "restart")
"""Commands that change a cluster or a resource: Ctrl-C says what they had sent."""


def every_command(selected: str = "") -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """(command, its line of help, its flags and arguments), of all commands or of one. Imports them."""
    for name, (module, help_line) in COMMANDS.items():
        if selected not in ("", name):
            continue
        parser = argparse.ArgumentParser()
        add_common(parser)
        importlib.import_module(module).add_arguments(parser)
        yield name, help_line, parser._actions  # argparse has no public name for them


def add_common(parser: argparse.ArgumentParser) -> None:
    """Flags that every command has."""
    parser.add_argument("-v", "--verbose", action="store_true", help="show the requests that are made, on stderr")
    parser.add_argument("--debug", action="store_true", help="show a traceback on an internal error")
