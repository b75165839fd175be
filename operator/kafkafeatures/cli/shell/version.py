"""`kafkafeatures version`: prints versions and the known Kafka releases, without a cluster."""

from __future__ import annotations

import argparse
from importlib import metadata

from kafkafeatures import __version__
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, releases


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No flags."""


def run(arguments: argparse.Namespace) -> int:
    """Print version, known releases and levels of Kafka, and the versions of the libraries that speak to it."""
    newest = METADATA_VERSIONS[max(METADATA_VERSIONS)]
    print(f"kafkafeatures {__version__}")
    print(f"knows Kafka {', '.join(releases())}")
    print(f"knows metadata.version 1 to {newest.level} ({newest.name}); other levels are handled as numbers")
    print(f"kio {metadata.version('kio')}, scramp {metadata.version('scramp')}")
    return Exit.DONE
