"""Changes levels without a document that a person wrote: what `upgrade` and `downgrade` share.

The document is the one that `init` prints, but in mode Apply and with the levels of the command line. It is carried out
as `apply` does. Since no person wrote it, it approves neither an irreversible change nor one that needs a consent: that
takes an answer at the terminal, where a person types each consent, or the hash of the plan. `--yes` is not enough.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafkafeatures.api.document import read_document
from kafkafeatures.cli.cluster.connect import (
    DEFAULT_TIMEOUT,
    add_connection_flags,
    look,
    on_cluster,
    settings_to_change,
)
from kafkafeatures.cli.cluster.document_reader import STDIN
from kafkafeatures.cli.document.apply import add_apply_flags, apply_all
from kafkafeatures.cli.document.documents import STATE, Document, add_approve_flag, flags_given
from kafkafeatures.cli.document.init import DEFAULT_NAME, add_name_flag, document_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document, tell
from kafkafeatures.cli.shell.values import FeatureLevel, feature_level
from kafkafeatures.core.facts.releases import level_name
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.reconcile.file_store import lock_of

_DEFAULTS = {"name": DEFAULT_NAME, "request_timeout": DEFAULT_TIMEOUT}
"""Defaults by flag: a flag with its default is left out of the command line that a message names."""
Targets = Callable[[Mapping[str, int]], Mapping[str, int]]
"""Function from the finalized levels to those that the command line asks for. Raises CommandFailed for levels that this
command does not set.
"""


def add_feature_flag(group: argparse._ActionsContainer, help_line: str, *, required: bool = False) -> None:
    """`--feature`, as Kafka's own tool has it."""
    group.add_argument(
        "--feature", type=feature_level, action="append", required=required, metavar="NAME=LEVEL", help=help_line
    )


def add_direct_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that `upgrade` and `downgrade` share, beside the levels."""
    add_connection_flags(parser)
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="also write the document there, for Git; it refers to secrets by name"
    )
    add_name_flag(parser)
    add_approve_flag(parser)
    add_apply_flags(parser)
    parser.set_defaults(accept_restored_log="", state=None, secrets_dir=None)


def levels_of(features: list[FeatureLevel]) -> dict[str, int]:
    """The level of each feature. Raises CommandFailed for a feature that is given twice with different levels."""
    levels: dict[str, int] = {}
    for feature in features:
        if levels.setdefault(feature.name, feature.level) != feature.level:
            raise CommandFailed(f"--feature {feature.name} is given twice; give one level", Exit.USAGE)
    return levels


def carry_out(command: str, arguments: argparse.Namespace, targets_of: Targets) -> int:
    """Read the cluster, make the document, and apply it. Returns the exit code."""
    settings, file = settings_to_change(arguments), arguments.save
    if file is not None and file.exists():
        raise CommandFailed(f"{file} exists already; use apply -f {file}, or name another file", Exit.USAGE)
    words = _command_line(command, arguments)
    observation = on_cluster(look(settings))
    content = document_of(arguments.name, settings, observation)  # with the levels that are finalized
    finalized = observation.known_levels
    targets = {name: level for name, level in targets_of(finalized).items() if level != finalized.get(name)}
    _aim(content["spec"], targets)
    consents = [change.consent for change in changes_between(targets, finalized) if change.consent]
    if consents:
        content["spec"]["consents"] = consents
    if file is None or arguments.dry_run:
        return apply_all(arguments, [Document(file or STDIN, read_document(content), settings=settings, command=words)])
    state = file.with_suffix(STATE)
    created = tuple(path for path in (file, state, lock_of(state)) if not path.exists())
    document = Document(file, read_document(content), settings=settings, command=words, created_files=created)
    _save(content, file)
    try:
        return apply_all(arguments, [document])
    finally:
        if file.exists():  # `apply_all` removes it if no step was begun
            tell(f"document written to {file}")


def _command_line(command: str, arguments: argparse.Namespace) -> tuple[str, ...]:
    """This command line, without the flags that confirm or approve it."""
    flags = ["release", "feature", "bootstrap_server", "bootstrap_controller", "config", "controller_config", "save"]
    flags += [flag for flag, default in _DEFAULTS.items() if getattr(arguments, flag) != default]
    return (command, *flags_given(arguments, filter(arguments.__contains__, flags)))


def _aim(spec: dict[str, Any], targets: Mapping[str, int]) -> None:
    """Put these levels into the spec of a document, in place of those that it has for their features."""
    levels = {level["name"]: level["level"] for level in spec["features"]["levels"]} | dict(targets)
    spec["mode"] = "Apply"
    spec["features"]["levels"] = [
        {"name": name, "level": level_name(name, level) or level} for name, level in sorted(levels.items())
    ]


def _save(document: dict[str, Any], file: Path) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            print_document(document, "yaml", stream)
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}", Exit.USAGE) from None
