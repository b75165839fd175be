"""Flags that name documents, their state files and secrets: reads what they name, and turns whatever is wrong into
errors.

Shared by `plan`, `apply`, `upgrade`, `downgrade` and the commands of `migration`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.cli.cluster.connect import add_config_flags, add_secrets_flag, security_of_flags
from kafkafeatures.cli.cluster.document_reader import STDIN, read_file
from kafkafeatures.cli.cluster.document_settings import (
    document_errors,
    settings_with_flags,
    shown_file,
)
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit, worst
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.cli.shell.values import plan_hash
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.ports import ZooKeeperPort
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.core.roll.drivers import unused_sets
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.reconcile.credentials import bootstrap_of, ensemble_of, secrets_in, settings_of
from kafkafeatures.reconcile.file_store import FileStore, is_state_of
from kafkafeatures.zookeeper.ensemble import Ensemble

_SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of documents in a folder."""
STATE = ".status.yaml"
"""Suffix of a state file, in place of the suffix of its document."""


def add_document_flags(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`-f`, `--state`, `--approve`, `--accept-restored-log`, `--secrets-dir`, `--config`, `--controller-config`.

    `required`: the command cannot do without `-f`.
    """
    parser.add_argument(
        "-f", "--file", type=Path, action="append", required=required, metavar="FILE",
        help="KafkaFeatures documents (YAML), one or several in a file; a folder: its *.yaml, *.yml and *.json; - is "
        "stdin; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="state file for the status (default: FILE with .status.yaml; none for stdin); for one document",
    )
    add_approve_flag(parser)
    parser.add_argument(
        "--accept-restored-log",
        default="",
        metavar="ID@EPOCH",
        help="accept a metadata log that was restored from a backup: records that were read before are missing",
    )
    add_secrets_flag(parser)
    add_config_flags(parser.add_argument_group("cluster, instead of what the document says"))


def add_approve_flag(parser: argparse.ArgumentParser) -> None:
    """`--approve`."""
    parser.add_argument("--approve", type=plan_hash, metavar="HASH", help="carry out only the plan with this hash")


class Document(Struct, frozen=True):
    """A document that a command works on. `alone`: its file holds no other KafkaFeatures document.

    `owners`: the names of documents by the cluster id that they own, shared by all documents of a command. `settings`:
    connection settings from flags, in place of those in the document. `command`: the command line that made the
    document, if no person wrote it; then naming a level in it does not approve anything irreversible. `created_files`:
    files that this command created, and removes if no step is begun.
    """

    file: Path
    resource: KafkaFeatures
    alone: bool = True
    owners: dict[str, str] = field(default_factory=dict)
    settings: ClusterSettings | None = None
    command: tuple[str, ...] = ()
    created_files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        if self.command:  # a name that no person gave says nothing
            return f"cluster {self.resource.spec.cluster.cluster_id}"
        return f"{self.resource.metadata.namespace}/{self.resource.metadata.name}"

    def store(self, arguments: argparse.Namespace, *, reads_again: bool = False) -> FileStore:
        """The document with its state file. `reads_again`: the document is read again before each step, unless it came
        from a stream.
        """
        return FileStore(
            self.resource,
            state_of(arguments, self),
            approve=arguments.approve or "",
            accepted_log=arguments.accept_restored_log,
            approves_by_name=not self.command,
            reread=self.read_again if reads_again and not is_stream(self.file) else None,
        )

    def remove_created_files(self) -> None:
        """Remove the files that this command created."""
        for file in self.created_files:
            file.unlink(missing_ok=True)

    def competing_owner(self, cluster_id: str) -> Owner | None:
        """The earlier document of this command that owns the cluster; None if there is none, and then this document
        owns it.
        """
        name = self.owners.setdefault(cluster_id, str(self))
        return None if name == str(self) else Owner(name, owns_cluster=True)

    def read_again(self) -> KafkaFeatures:
        """Read the document from its file again. Raises InvalidDocument if the file no longer has it."""
        metadata = self.resource.metadata
        for resource in read_file(self.file).resources:
            if (resource.metadata.namespace, resource.metadata.name) == (metadata.namespace, metadata.name):
                return resource
        raise InvalidDocument((f"{self} is no longer in it",))


def documents_of(arguments: argparse.Namespace) -> list[Document]:
    """All documents that the flags name. Raises CommandFailed with all errors in them."""
    documents: list[Document] = []
    problems: list[CommandFailed] = []
    owners: dict[str, str] = {}
    security = security_of_flags(arguments)
    for file, is_in_folder in _files(arguments.file):
        try:
            with document_errors(file):
                resources, other_names = read_file(file)
                for resource in resources:  # raises InvalidDocument for mistakes that the schema does not show
                    bootstrap_of(resource.spec.cluster)
            with document_errors(file, Exit.BLOCKED):
                for resource in resources:
                    wanted_of(resource)
                documents_in_file = [
                    Document(
                        file, resource, len(resources) == 1, owners,
                        None if security is None else settings_with_flags(resource, security, None),
                    )
                    for resource in resources
                ]  # fmt: skip
        except CommandFailed as failed:
            problems.append(failed)
            continue
        if other_names and (resources or is_in_folder):
            tell(f"{shown_file(file)}: skipped, as not of KafkaFeatures: {', '.join(other_names)}")
        elif other_names:
            problems.append(_refused(f"no KafkaFeatures document in it, only {', '.join(other_names)}", file))
        documents += documents_in_file
    problems += _conflicts(documents)
    if not documents and not problems:
        problems.append(_refused("no KafkaFeatures document found; subfolders are not followed", *arguments.file))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise CommandFailed("\n".join(map(str, problems)), worst(problem.code for problem in problems))
    for document in documents:
        if note := unused_sets(document.resource.raw_spec):
            tell(f"{document}: {note}")
    if len(documents) > 1 and arguments.state is not None:
        text = f"--state is the state file of one document, and there are {len(documents)}; each has its own without it"
        raise CommandFailed(text, Exit.USAGE)
    return documents


def _refused(subject: str, *files: Path) -> CommandFailed:
    names = ", ".join(map(shown_file, files))
    return CommandFailed(printable(f"{names}: {subject}"), Exit.USAGE, what=subject, where=names)


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Files at these paths, each with True if it was found in a folder. Of a folder its YAML and JSON files count,
    sorted, without our state files. Subfolders are not read; a message says so if there are any beside such files.
    """
    for path in paths:
        if not path.is_dir():
            yield path, False
            continue
        with document_errors(path):
            inside = sorted(path.iterdir())
            files = [entry for entry in inside if entry.suffix in _SUFFIXES and entry.is_file()]
        if files and any(entry.is_dir() and not entry.name.startswith(".") for entry in inside):
            tell(f"{path}: its subfolders are not followed; name each with -f")
        yield from ((file, True) for file in files if not file.name.endswith(STATE))


def _conflicts(documents: Sequence[Document]) -> Iterator[CommandFailed]:
    """Errors for documents with equal names, and for documents in mode Apply of one cluster, as far as their addresses
    or cluster ids show that; `competing_owner` finds the others once connected.
    """
    names: dict[str, Document] = {}
    clusters: dict[object, Document] = {}
    for document in documents:
        if other := names.get(str(document)):
            yield _refused(
                f"{document} is in {shown_file(other.file)} as well; remove one, or rename it", document.file
            )
            continue
        names[str(document)] = document
        cluster = document.resource.spec.cluster
        keys: list[object] = [address for part in bootstrap_of(cluster) for address in part]
        keys += [cluster.cluster_id] if cluster.cluster_id else []
        keys += [(document.resource.metadata.namespace, cluster.found_by)] if cluster.found_by else []
        if document.resource.spec.mode != "Apply":
            continue
        if other := next((clusters[key] for key in keys if key in clusters), None):
            text = f"{document} and {other} ({shown_file(other.file)}) are of the same cluster"
            yield _refused(f"{text}; set mode to Observe in one of them, or remove it", document.file)
        clusters |= dict.fromkeys(keys, document)


def state_of(arguments: argparse.Namespace, document: Document) -> Path | None:
    """Path of the state file. None if no flag names one and the document comes from a stream. Raises CommandFailed for
    a path that cannot be that of a state file.

    It is FILE.status.yaml for a file with one document, else it also has the document's name. An existing state file
    stays in use if documents are added to the file or removed from it.
    """
    file: Path = document.file
    if arguments.state is None and is_stream(file):
        return None
    state = arguments.state or file.with_suffix(STATE)
    if arguments.state is None:
        state_by_name = file.with_suffix(
            f".{document.resource.metadata.namespace}.{document.resource.metadata.name}{STATE}"
        )
        if state_by_name.exists() or not (document.alone or is_state_of(state, document.resource)):
            state = state_by_name
    for is_wrong, problem in (
        (not state.parent.is_dir(), f"the directory {state.parent} of the state file does not exist"),
        (state.is_dir(), f"the state file {state} is a directory"),
        (state.exists() and not state.is_file(), f"the state file {state} is not a regular file"),
        (state.resolve() == file.resolve(), f"{file} is the document itself, not its state file"),
    ):
        if is_wrong:
            raise CommandFailed(f"{problem}; name another with --state FILE", Exit.USAGE)
    return state


def is_stream(file: Path) -> bool:
    """True for standard input by any of its names, also if a file is redirected to it, and for anything that is not a
    regular file, such as a pipe.
    """
    return file == STDIN or str(file).startswith(("/dev/stdin", "/dev/fd/", "/proc/")) or not file.is_file()


def how_to_approve(arguments: argparse.Namespace, document: Document, plan_hash: str) -> str:
    """The command line that approves a plan of this document, to be copied; or, if the document approves another plan
    by its hash, which `--approve` does not replace, a text that tells to change that.
    """
    approved_hash = document.resource.spec.approval.plan_hash
    if approved_hash and not plan_hash.startswith(approved_hash):
        source = "the document" if is_stream(document.file) else document.file
        return f"set spec.approval.planHash of {source}, which is of another plan, to {plan_hash[:HASH_SHOWN]}"
    flags = ("state", "secrets_dir", "config", "controller_config")
    words = document.command or ("apply", "-f", str(document.file), *flags_given(arguments, flags))
    return shlex.join(["kafkafeatures", *words, "--approve", plan_hash[:HASH_SHOWN]])


def flags_given(arguments: argparse.Namespace, names: Iterable[str]) -> tuple[str, ...]:
    """Flags of these names that have a value, as words of a command line; one with several values is repeated."""
    flag_values = ((f"--{name.replace('_', '-')}", getattr(arguments, name)) for name in names)
    return tuple(
        chain.from_iterable(
            (flag, str(value))
            for flag, values in flag_values
            for value in (values if isinstance(values, list) else [values])
            if value
        )
    )


class ConnectionSettings(NamedTuple):
    """Connection settings of a cluster, and its ZooKeeper ensemble; None if the document does not need ZooKeeper."""

    settings: ClusterSettings
    ensemble: Ensemble | None

    def zookeeper(self, cluster: Cluster) -> ZooKeeperPort | None:
        """The port to ZooKeeper; None if the document does not need it. Imported here, since the client starts
        threads.
        """
        if self.ensemble is None:
            return None
        from kafkafeatures.zookeeper.client import ZooKeeper

        return ZooKeeper(self.ensemble, SYSTEM, cluster.whole_log)


def connection_settings_of(arguments: argparse.Namespace, document: Document) -> ConnectionSettings:
    """Connection settings of the document's cluster. Raises what `document_errors` turns into CommandFailed."""
    spec = document.resource.spec
    secrets = secrets_in(arguments.secrets_dir)
    ensemble = ensemble_of(spec.cluster, secrets) if spec.wants_ensemble else None
    return ConnectionSettings(document.settings or settings_of(spec.cluster, secrets), ensemble)
