"""`kafkafeatures pipeline export`: writes the tables of the last run as Delta tables, into a folder or an object store.

Called by `cli/pipeline/command.py`. It holds the same lock as a run, which would change the tables meanwhile.
`featurelog.export` decides which tables are written, and which are never overwritten.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkafeatures.cli.pipeline.gate import tables_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit, to_install
from kafkafeatures.cli.shell.output import print_document

if TYPE_CHECKING:
    from featurelog.config import Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flag for the place of the export."""
    parser.add_argument("--to", metavar="PLACE", help="of export: a folder, or s3://bucket/prefix")


def export(arguments: argparse.Namespace, config: Config) -> int:
    """Export the tables. Exit code 0: every table is exported as the last run left it."""
    try:
        from featurelog import export as delta
    except ModuleNotFoundError as error:
        raise missing(error, "pipeline,export") from None
    from featurelog.disk import Disk

    if not arguments.to:
        raise CommandFailed("export: --to PLACE is required: a folder, or s3://bucket/prefix", Exit.USAGE)
    output = config.settings.output
    tables_of(config)  # first, so that no lock file is created if there are no tables
    try:
        with Disk().locked(output / ".lock"):
            tables, _ = tables_of(config)  # again: a run may have replaced them before the lock was taken
            exported = list(delta.export(tables, arguments.to))
    except delta.ExportError as error:
        raise CommandFailed(str(error), Exit.FAILED) from None
    except OSError as error:
        raise CommandFailed(f"{error.filename or output}: {error.strerror}; check the rights", Exit.FAILED) from None
    if arguments.output == "json":
        shapes = [
            {"table": table.table, "rows": table.rows, "version": table.version, "written": table.is_new}
            for table in exported
        ]
        print_document({"to": arguments.to, "sequence": tables.sequence, "tables": shapes}, "json")
    else:
        new = sum(table.is_new for table in exported)
        print(
            f"pipeline: {len(exported)} Delta tables in {arguments.to}, as run {tables.sequence} left them: "
            f"{new} written, {len(exported) - new} were the same"
        )
    return Exit.DONE


def missing(error: ModuleNotFoundError, extras: str, alternative: str = "") -> CommandFailed:
    """The error that names what is not installed and how to install it. `alternative`: text behind that."""
    return CommandFailed(f"{error.name} is not installed: {to_install(extras)}{alternative}", Exit.BLOCKED)
