"""Makes docs/reference/pipeline-tables.md, about the pipeline's derived tables, from the text and the columns of each.

Called by `reference.py`.
"""

from __future__ import annotations

import pyarrow as pa

from featurelog.tables import TABLES, Table

_HEAD = """\
The pipeline makes these tables from the records of a cluster's metadata logs (`featurelog.tables`), and the tables
about clients also from request logs, scrapes and server logs of brokers. The same inputs always give the same tables,
whatever the order of the files, and even if a file exists twice. Every column may be null. An unknown value is null,
never a default. Tables about clients are there as soon as there is evidence about clients.

Four rules apply to all tables of metadata logs:

- Copies from several nodes are merged into one log if they agree by offset and leader epoch. Copies that contradict
  each other are never merged. No checksum covers the epoch, so these are contradictions too: an epoch that begins
  without a leader change, an epoch that goes back, and a record with two epochs.
- A record is known to be committed (`committed` is `yes`) if a complete snapshot contains its state, or if a majority
  of the voters has a copy of it. A leader may undo any other record. A copy counts for the node that its
  `meta.properties` names, and counts once even if it is in several folders. Without `meta.properties` it counts for
  the node whose id ends the name of its folder, unless another copy ends at the same record and no snapshot
  distinguishes the two.
- A snapshot is a state, not an event. If only a snapshot shows a state, it is not known when that state began, only
  when it began at the latest (`not_after`).
- Records of a metadata transaction take effect at its end. After a gap the state is in doubt until the next complete
  snapshot.

`upgrade_readiness` describes the cluster at `watermark_ts`. No file shows what happened later: from `valid_until` on,
treat a verdict as `unknown`. A file that is removed, truncated or duplicated never turns a verdict into `ready`: a gap
is a doubt, and if the end is missing from all copies, the watermark is older. But if only one copy has the last
records, they can be missing without a trace until `valid_until`. Therefore copy the logs of all voters. The gate needs
copies from a majority of the voters, and from at least two nodes.
"""


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    parts = ["# Tables of the pipeline", "", note, _HEAD]
    for table in TABLES.values():
        parts += [f"## {table.name}", "", table.text, "", f"Key: {', '.join(f'`{name}`' for name in table.key)}.", ""]
        parts += ["| Column | Type | Meaning |", "|---|---|---|", *_rows(table), ""]
    return "\n".join(parts)


def _rows(table: Table) -> list[str]:
    return [f"| `{column.name}` | {type_of(column.type)} | {column.text} |" for column in table.columns]


def type_of(kind: pa.DataType) -> str:
    """A type as the page shows it."""
    if pa.types.is_timestamp(kind):
        return "timestamp (UTC)"
    if pa.types.is_list(kind):
        return f"list of {type_of(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map of {type_of(kind.key_type)} to {type_of(kind.item_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(f'{field.name}: {type_of(field.type)}' for field in kind)})"
    return str(kind)
