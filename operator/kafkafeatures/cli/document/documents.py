"""The flags that name a document, its state and its secrets, and the words for what is wrong with them.

Shared by `plan` and `apply`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.values import plan_hash
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.ports import ZooKeeperPort
from kafkafeatures.core.resolve import driver_in
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.reconcile.credentials import CredentialsInvalid, ensemble_of, secrets_in, settings_of
from kafkafeatures.reconcile.file_store import STDIN, StateHeld, StateUnreadable, read_file
from kafkafeatures.zookeeper.ensemble import Ensemble


def add_document_flags(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`-f`, `--state`, `--approve`, `--accept-restored-log`, `--secrets-dir`.

    `required`: there is nothing else than a file to name.
    """
    parser.add_argument(
        "-f", "--file", type=Path, action=_Once, required=required, metavar="FILE",
        help="a KafkaFeatures document (YAML); - is stdin",
    )  # fmt: skip
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="state file for the status (default: FILE with .status.yaml; none for stdin)",
    )
    parser.add_argument("--approve", type=plan_hash, metavar="HASH", help="carry out only the plan with this hash")
    parser.add_argument(
        "--accept-restored-log",
        default="",
        metavar="ID@EPOCH",
        help="continue although Kafka's metadata log ends before what was read of it: it was restored from a backup",
    )
    parser.add_argument("--secrets-dir", type=Path, metavar="DIR", help="directory of secrets: DIR/<secret-name>/<key>")


class _Once(argparse.Action):
    """Refuses an option that is given twice, where argparse itself would silently use the last one."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option}: only one document at a time: run the command once for each")
        setattr(namespace, self.dest, values)


def state_of(arguments: argparse.Namespace) -> Path | None:
    """Where the status is kept. None where nothing was said and the document is no file that one could be beside."""
    file: Path = arguments.file
    if arguments.state is None and is_stream(file):
        return None
    state: Path = arguments.state or file.with_suffix(".status.yaml")
    for wrong, what in (
        (not state.parent.is_dir(), f"the directory {state.parent} of the state file does not exist"),
        (state.is_dir(), f"the state file {state} is a directory"),
        (state.exists() and not state.is_file(), f"the state file {state} is not a regular file"),
        (state.resolve() == file.resolve(), f"{file} is the document itself, not its state file"),
    ):
        if wrong:
            raise CommandFailed(f"{what}; name another with --state FILE", Exit.USAGE)
    return state


def is_stream(file: Path) -> bool:
    """Standard input by any of its names, also where a file was redirected into it; a pipe."""
    return file == STDIN or str(file).startswith(("/dev/stdin", "/dev/fd/", "/proc/")) or not file.is_file()


def how_to_approve(arguments: argparse.Namespace, document: KafkaFeatures, plan_hash: str) -> str:
    """The command line that approves a plan of this document, to be copied; where the document approves another plan,
    which holds everything, that it has to be changed.
    """
    named = document.spec.approval.plan_hash
    if named and not plan_hash.startswith(named):
        where = "the document" if is_stream(arguments.file) else arguments.file
        return f"set spec.approval.planHash of {where}, which is of another plan, to {plan_hash[:HASH_SHOWN]}"
    words = ["kafkafeatures", "apply", "-f", str(arguments.file)]
    for flag, value in (("--state", arguments.state), ("--secrets-dir", arguments.secrets_dir)):
        words += [flag, str(value)] if value else []
    return shlex.join([*words, "--approve", plan_hash[:HASH_SHOWN]])


@contextmanager
def document_errors(path: Path) -> Iterator[None]:
    """Whatever is wrong with a document, its state or its secrets ends the command in words."""
    try:
        yield
    except InvalidDocument as error:
        where = "stdin" if path == STDIN else path
        raise CommandFailed("\n".join(printable(f"{where}: {one}") for one in error.problems), Exit.BLOCKED) from None
    except (CredentialsInvalid, StateHeld, StateUnreadable) as error:
        raise CommandFailed(str(error), Exit.BLOCKED) from None
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else "stdin"
        raise CommandFailed(f"{where}: {error.strerror}", Exit.BLOCKED) from None


class Reach(NamedTuple):
    """How to reach a cluster, and its ensemble where something is wanted of it."""

    settings: ClusterSettings
    ensemble: Ensemble | None

    def zookeeper(self, cluster: Cluster) -> ZooKeeperPort | None:
        """Imported only where something is wanted of it: it brings a client with threads of its own."""
        if self.ensemble is None:
            return None
        from kafkafeatures.zookeeper.client import ZooKeeper

        return ZooKeeper(self.ensemble, SYSTEM, cluster.whole_log)


def read(arguments: argparse.Namespace) -> tuple[KafkaFeatures, Reach]:
    """The document and how to reach its cluster. Raises what `document_errors` turns into a CommandFailed."""
    resource = read_file(arguments.file)
    driver = driver_in(resource.spec.workload)
    if driver.asks_people and find_spec("numpy") is None:  # partitions are judged with it
        raise CommandFailed(
            f"spec.workload.driver: {driver.name} needs numpy; install it: pip install numpy", Exit.FAILED
        )
    spec, secrets = resource.spec, secrets_in(arguments.secrets_dir)
    ensemble = ensemble_of(spec.cluster, secrets) if spec.wants_ensemble else None
    return resource, Reach(settings_of(spec.cluster, secrets), ensemble)
