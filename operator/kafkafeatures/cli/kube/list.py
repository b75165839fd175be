"""`kafkafeatures list`: the KafkaFeatures of one or all namespaces, a line for each; those that need action come first.

Reads the objects page by page; with `-w` it reads them again each second. Changes nothing.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.kube.polling import add_watch_flag, changes
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import add_output_flag, console, print_document, tell

if TYPE_CHECKING:
    from kafkafeatures.cli.kube.resource import KubeResource

_URGENCY = {"False": 0, "Unknown": 1, "True": 2}
"""Order of rows by the condition Ready, the most urgent first; without it as Unknown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `list`."""
    add_kube_flags(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="list the resources of all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="list only resources with these labels")
    add_watch_flag(parser)
    add_output_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read and print a table, or as json and yaml a List of the objects themselves, without managedFields.

    With -w, objects are printed one by one, and the rows or objects of resources that change are printed again.
    """
    everywhere, form = arguments.all_namespaces, arguments.output
    with connected(arguments) as kube:

        def read() -> list[KubeResource]:
            return kube.resources(everywhere=everywhere, selector=arguments.selector)

        scope = "any namespace" if everywhere else f"namespace {kube.namespace}"
        rows = _Rows(everywhere=everywhere)
        if not arguments.watch and form != "table":
            items = [resource.document for resource in read()]
            print_document({"apiVersion": "v1", "kind": "List", "items": items}, form)
            return Exit.DONE
        essence = cells_of if form == "table" else attrgetter("without_version")  # if this changes, print again
        for change in changes(kube, read, essence) if arguments.watch else (read(),):
            if not change:
                tell(f"no {KIND} ({API_VERSION}) in {scope}")
            elif form == "table":
                rows.draw(sorted(change, key=urgency))
            else:
                for resource in change:
                    print_document(resource.document, form, another=True)
    return Exit.DONE


def urgency(resource: KubeResource) -> tuple[bool, int, str]:
    """The key to sort by: stalled resources first, then by `_URGENCY`, then by name."""
    ready = resource.status.condition(Condition.READY)
    is_stalled = resource.true_condition(Condition.STALLED) is not None
    return not is_stalled, _URGENCY.get(ready.status if ready is not None else "Unknown", 1), str(resource)


def cells_of(resource: KubeResource, age: str = "") -> dict[str, str]:
    """The cells of a row by column title. `age`: how long Ready has its reason; left out for comparisons, since it
    changes all the time.
    """
    from kafkafeatures.cli.kube.status_text import NOT_YET

    status, ready = resource.status, resource.status.condition(Condition.READY)
    return {
        "Namespace": str(resource.metadata["namespace"]),
        "Name": str(resource.metadata["name"]),
        "State": NOT_YET[0] if ready is None else ready.reason,
        "For": age,
        "Metadata": status.metadata_version or "-",
        "Target": status.target_metadata_version or "-",
        "Levels": status.progress.removesuffix(" levels") or "-",
    }


class _Rows:
    """A table to which rows are added later; the columns keep their widths, or become wider."""

    _TITLES = ("Namespace", "Name", "State", "For", "Metadata", "Target", "Levels")

    def __init__(self, *, everywhere: bool) -> None:
        self._titles = self._TITLES if everywhere else self._TITLES[1:]
        self._widths = {title: len(title) for title in self._titles}
        self._drawn = False

    def draw(self, resources: list[KubeResource]) -> None:
        """Print rows, the first time below their titles."""
        from rich.table import Table
        from rich.text import Text

        from kafkafeatures.cli.kube.status_text import NOT_YET, READY_WORDS, age, reason_since

        current_time = datetime.now(UTC)
        rows = []
        for resource in resources:
            ready = resource.status.condition(Condition.READY)
            cells = cells_of(
                resource, "-" if ready is None else age(reason_since(resource.status, ready), current_time)
            )
            style = READY_WORDS.get(ready.status if ready else "", NOT_YET)[1]
            rows.append([Text(cells[title], style if title == "State" else "") for title in self._titles])
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=not self._drawn)
        for title, column in zip(self._titles, zip(*rows, strict=True), strict=True):
            self._widths[title] = max(self._widths[title], *(cell.cell_len for cell in column))
            table.add_column(title, overflow="fold", min_width=self._widths[title] if self._drawn else None)
        for row in rows:
            table.add_row(*row)
        console().print(table)
        self._drawn = True
