"""`kafkafeatures upgrade --release X | --feature NAME=LEVEL`: raises the levels of a cluster, without a document.

A level that is higher already stays with `--release`, and is refused with `--feature`: nothing is downgraded.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kafkafeatures.cli.cluster.connect import flags_of
from kafkafeatures.cli.document.direct import add_direct_flags, add_feature_flag, carry_out, levels_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.cli.shell.values import release
from kafkafeatures.core.facts.releases import bundle, format_level


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `upgrade`."""
    targets = parser.add_mutually_exclusive_group(required=True)
    targets.add_argument(
        "--release", "--release-version", type=release, metavar="X", help="raise the levels to those of Kafka X"
    )
    add_feature_flag(
        targets, "raise this feature only, such as group.version=1 or metadata.version=4.1-IV1; may be repeated"
    )
    add_direct_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Raise the levels, once the plan is confirmed."""
    if arguments.release is not None:
        return carry_out("upgrade", arguments, lambda finalized: _of_release(arguments.release, finalized))
    levels = levels_of(arguments.feature)
    return carry_out("upgrade", arguments, lambda finalized: _of_features(levels, finalized, flags_of(arguments)))


def _of_release(release: str, finalized: Mapping[str, int]) -> Mapping[str, int]:
    """The levels of the release that are above the finalized ones. Prints a line to stderr for those that are below."""
    levels = bundle(release) or {}
    higher = [
        f"{name} is at {format_level(name, level)}, above {format_level(name, levels[name])} of Kafka {release}"
        for name, level in finalized.items()
        if level > levels.get(name, level)
    ]
    if higher:
        tell(f"{'; '.join(higher)}: upgrade never downgrades")
    return {name: level for name, level in levels.items() if level > finalized.get(name, 0)}


def _of_features(levels: Mapping[str, int], finalized: Mapping[str, int], flags: str) -> Mapping[str, int]:
    """These levels. Raises CommandFailed if a finalized level is higher. `flags`: of the connection."""
    lower = [
        f"{name} is at {format_level(name, finalized[name])}: upgrade never downgrades; nothing was changed; to go "
        f"back: kafkafeatures downgrade --feature {name}={level} {flags}"
        for name, level in levels.items()
        if level < finalized.get(name, 0)
    ]
    if lower:
        raise CommandFailed("\n".join(lower), Exit.BLOCKED)
    return levels
