"""`kafkafeatures list`: the KafkaFeatures of a namespace or of all, one line each, those that need a person first.

Reads the objects, page by page; changes nothing.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import add_output_flag, console, print_document, tell

if TYPE_CHECKING:
    from kafkafeatures.cli.kube.resource import KubeResource

_URGENT = {"False": 0, "Unknown": 1, "True": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `list`."""
    add_kube_flags(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="those of all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only those with these labels")
    add_output_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read and print; json and yaml are a List of the objects themselves, without managedFields."""
    with connected(arguments) as kube:
        found = kube.resources(everywhere=arguments.all_namespaces, selector=arguments.selector)
        where = "any namespace" if arguments.all_namespaces else f"namespace {kube.namespace}"
    if arguments.output != "table":
        items = [one.document for one in found]
        print_document({"apiVersion": "v1", "kind": "List", "items": items}, arguments.output)
    elif not found:
        tell(f"no {KIND} ({API_VERSION}) in {where}")
    else:
        _draw(sorted(found, key=_urgency), everywhere=arguments.all_namespaces)
    return Exit.DONE


def _urgency(one: KubeResource) -> tuple[bool, int, str]:
    ready = one.status.condition(Condition.READY)
    is_stalled = one.says(Condition.STALLED) is not None
    return not is_stalled, _URGENT.get(ready.status if ready is not None else "Unknown", 1), str(one)


def _draw(found: list[KubeResource], *, everywhere: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from kafkafeatures.cli.kube.status_text import NOT_YET, READY_WORDS, age, reason_since

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in (*(("Namespace",) if everywhere else ()), "Name"):
        table.add_column(title, overflow="fold")
    for title in ("State", "For", "Metadata", "Target", "Levels"):
        table.add_column(title, overflow="fold")
    now = datetime.now(UTC)
    for one in found:
        status, ready = one.status, one.status.condition(Condition.READY)
        word, style = READY_WORDS.get(ready.status if ready else "", NOT_YET)
        table.add_row(
            *((str(one.metadata["namespace"]),) if everywhere else ()),
            str(one.metadata["name"]),
            Text(word if ready is None else f"{word}: {ready.reason}", style),
            "-" if ready is None else age(reason_since(status, ready), now),
            status.metadata_version or "-",
            status.target_metadata_version or "-",
            status.progress or "-",
        )
    console().print(table)
