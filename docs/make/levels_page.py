"""Makes docs/reference/levels.md from the table by which plans say what a level does. Called by `reference.py`."""

from __future__ import annotations

from itertools import groupby

from kafkafeatures.api.records import Json
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.report.levels_document import levels_document, span_of

_HEAD = """\
What finalizing each level does: what nodes and clients may do from then on, what Kafka writes besides the level, and
how far one can go back. A plan shows these lines under each of its steps, and
`kafkafeatures describe --explain-levels` prints them for the shell.

*Writes* is what Kafka changes at once, besides the level: of all levels only those of
`eligible.leader.replicas.version` and `kraft.version` have such an effect. This was read from the metadata logs of real
controllers of Kafka 3.9.2, 4.1.2, 4.2.0, 4.3.1 and 4.4.0: each level from 3.3-IV3 on raised, each feature but
`metadata.version` and `kraft.version` downgraded to 0, and every record compared but registrations, which nodes send
anew by themselves. A downgrade takes nothing of it back.

*Source* is the KIP or issue, and the class of Kafka where it is decided. What a level of `metadata.version` turns on is
decided in `MetadataVersion` (`server-common`); a level that turns on nothing is reserved, the first of
a release, or marks from when on `kafka-features.sh --release-version` includes another feature. Kafka 3.9 refuses any
level below 4, so 1 to 3 are found only in old logs.

Of a level that is not here nothing is known to this version: Kafka's upgrade notes say what it does.
"""


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    text = ["# What each level does", "", note, _HEAD]
    for feature, levels in groupby(levels_document()["levels"], key=lambda level: level["feature"]):
        text += [f"## {feature}", "", "| Level | Kafka | Turns on | Writes, and what to know | Way back | Source |"]
        text += ["|---|---|---|---|---|---|", *map(_row, levels), ""]
    return "\n".join(text)


def _row(level: Json) -> str:
    name = format_level(level["feature"], level["level"])
    besides = ". ".join(filter(None, (level["writes"] and f"**Writes** {level['writes']}", level["note"])))
    cells = (name, span_of(level["releases"]), level["turnsOn"] or "nothing", besides or "-", level["wayBack"])
    return f"| {' | '.join(cells)} | {level['source'] or '-'} |"
