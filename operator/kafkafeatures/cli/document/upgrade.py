"""`kafkafeatures upgrade --release X`: raises a cluster to the levels of a release, without a document.

It makes the document that `init` prints, but in mode Apply and with the levels of the release, and carries it out as
`apply` does. A level that is higher already stays, so nothing is downgraded. Since no person wrote these levels into a
document, an irreversible change needs a person's answer at the terminal, or the hash of the plan; `--yes` is not
enough.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kafkafeatures.api.document import read_document
from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.cluster.connect import (
    DEFAULT_TIMEOUT,
    add_connection_flags,
    look,
    on_cluster,
    settings_from_flags,
)
from kafkafeatures.cli.cluster.document_reader import STDIN
from kafkafeatures.cli.document.apply import add_apply_flags, apply_all
from kafkafeatures.cli.document.documents import STATE, Document, add_approve_flag, flags_given
from kafkafeatures.cli.document.init import DEFAULT_NAME, add_name_flag, document_of
from kafkafeatures.cli.document.permission import at_terminal
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document, tell
from kafkafeatures.cli.shell.values import release
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, bundle, format_level
from kafkafeatures.reconcile.file_store import lock_of

_DEFAULTS = {"name": DEFAULT_NAME, "request_timeout": DEFAULT_TIMEOUT}
"""Defaults by flag: a flag with its default is left out of the command line that a message names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `upgrade`."""
    add_connection_flags(parser)
    parser.add_argument(
        "--release",
        "--release-version",
        type=release,
        required=True,
        metavar="X",
        help="raise the levels to those of Kafka X",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="also write the document there, for Git; it refers to secrets by name"
    )
    add_name_flag(parser)
    add_approve_flag(parser)
    add_apply_flags(parser)
    parser.set_defaults(accept_restored_log="", state=None, secrets_dir=None)


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster, make the document, and apply it."""
    settings, file = settings_from_flags(arguments), arguments.save
    if file is not None and file.exists():
        raise CommandFailed(f"{file} exists already; use apply -f {file}, or name another file", Exit.USAGE)
    if not (arguments.yes or arguments.approve or arguments.dry_run or at_terminal()):
        text = "not a terminal; use --yes to skip confirmation, or --approve HASH for the plan that --dry-run shows"
        raise CommandFailed(text, Exit.USAGE)
    command = _command(arguments)
    content = document_of(arguments.name, settings, on_cluster(look(settings)))  # with the levels that are finalized
    levels = content["spec"]["features"]["levels"]
    _tell_higher(levels, arguments.release)
    content["spec"] |= {"mode": "Apply", "features": {"levels": _raised(levels, arguments)}}
    if file is None or arguments.dry_run:
        return apply_all(
            arguments, [Document(file or STDIN, read_document(content), settings=settings, command=command)]
        )
    state = file.with_suffix(STATE)
    created = tuple(path for path in (file, state, lock_of(state)) if not path.exists())
    document = Document(file, read_document(content), settings=settings, command=command, created_files=created)
    _save(content, file)
    try:
        return apply_all(arguments, [document])
    finally:
        if file.exists():  # `apply_all` removes it if nothing was sent
            tell(f"document written to {file}")


def _command(arguments: argparse.Namespace) -> tuple[str, ...]:
    """This command line, without the flags that confirm or approve it."""
    flags = ["release", "bootstrap_server", "bootstrap_controller", "config", "controller_config", "save"]
    flags += [flag for flag, default in _DEFAULTS.items() if getattr(arguments, flag) != default]
    return ("upgrade", *flags_given(arguments, flags))


def _tell_higher(levels: list[dict[str, Any]], release: str) -> None:
    """Print a line to stderr for levels that are above those of the release, and stay."""
    of_release = bundle(release) or {}
    higher = [
        f"{name} is at {format_level(name, level)}, above {format_level(name, of_release[name])} of Kafka {release}"
        for name, level in ((level["name"], level["level"]) for level in levels)
        if level > of_release.get(name, level)
    ]
    if higher:
        tell(f"{'; '.join(higher)}: upgrade never downgrades")


def _raised(levels: list[dict[str, Any]], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """For each feature the higher one of these levels and those of the release."""
    targets = {level["name"]: level["level"] for level in levels}
    for name, level in (bundle(arguments.release) or {}).items():
        targets[name] = max(level, targets.get(name, 0))
    return [{"name": name, "level": _named(name, level)} for name, level in sorted(targets.items()) if level]


def _named(feature: str, level: int) -> int | str:
    """The level as documents have it: metadata.version by its name, if that is known."""
    version = METADATA_VERSIONS.get(level) if feature == METADATA_VERSION else None
    return level if version is None else version.name


def _save(document: dict[str, Any], file: Path) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            print_document(document, "yaml", stream)
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}", Exit.USAGE) from None
