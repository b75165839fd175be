"""`kafkafeatures downgrade --feature NAME=LEVEL`: downgrades features, without a document.

Each downgrade needs its consent, `<feature>:<from>-><to>`, which the person types at the terminal once the plan has
shown what may be lost. Without a terminal the hash of the plan replaces it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kafkafeatures.cli.cluster.connect import flags_of
from kafkafeatures.cli.document.direct import add_direct_flags, add_feature_flag, carry_out, levels_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.facts.releases import format_level


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `downgrade`."""
    add_feature_flag(
        parser,
        "go back to this level of the feature, such as transaction.version=1 or metadata.version=4.1-IV1; 0 turns it "
        "off; may be repeated",
        required=True,
    )
    add_direct_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Downgrade the features, once their consents are typed, or the plan is approved by its hash."""
    levels = levels_of(arguments.feature)
    return carry_out("downgrade", arguments, lambda finalized: _targets(levels, finalized, flags_of(arguments)))


def _targets(levels: Mapping[str, int], finalized: Mapping[str, int], flags: str) -> Mapping[str, int]:
    """These levels. Raises CommandFailed if a finalized level is lower. `flags`: of the connection."""
    higher = [
        f"{name} is at {format_level(name, finalized.get(name, 0))}: downgrade never raises; nothing was changed; to "
        f"raise it: kafkafeatures upgrade --feature {name}={level} {flags}"
        for name, level in levels.items()
        if level > finalized.get(name, 0)
    ]
    if higher:
        raise CommandFailed("\n".join(higher), Exit.BLOCKED)
    return levels
