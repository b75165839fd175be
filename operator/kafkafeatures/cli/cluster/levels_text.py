"""Prints every known level and its effects: `describe --explain-levels`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from kafkafeatures.api.records import Json
from kafkafeatures.cli.shell.indented import hanging
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.report.levels_document import span_of

_LABELS = {"turnsOn": "turns on: ", "writes": "writes: ", "note": "note: ", "wayBack": ""}
"""Fields of a level that have a line each, if they are not empty, with the text before them."""


def draw(console: Console, levels: Iterable[Json]) -> None:
    """Print the levels (entries of `levels_document`, grouped by feature), each feature under a heading."""
    feature = ""
    for level in levels:
        if level["feature"] != feature:
            feature = level["feature"]
            console.print(Text(feature, "bold"))
        title = format_level(feature, level["level"])
        mark = ", finalized" if level.get("finalized") else ""
        hanging(console, Text(f"{title}  Kafka {span_of(level['releases'])}{mark}"), indent=4, first=Text("  "))
        if not level["turnsOn"]:
            hanging(console, Text("turns on nothing by itself", "dim"), indent=6)
        for name, label in _LABELS.items():
            if level[name]:
                source = f" ({level['source']})" if name == "turnsOn" else ""
                hanging(console, Text(f"{label}{level[name]}{source}", "dim"), indent=6)
