"""The reference of the pipeline's derived tables: made of what each table says of itself."""

from __future__ import annotations

import pyarrow as pa

from featurelog.tables import TABLES, Table

_HEAD = """\
What the pipeline makes of the records of a cluster's metadata logs (`featurelog.tables`). The same rows give the same
tables, in whatever order files come and however often a file is there. Every column may be null: what is not known is
never a default.

Four rules hold for all of them:

- Copies of several nodes are one log where they agree by offset and leader epoch. Copies that contradict each other
  are never merged. No checksum covers an epoch: one that begins without a leader change or goes back, and records that
  have two, are contradictions as well.
- A record is surely committed (`committed` is `yes`) where a whole snapshot has what it says, or a majority of the
  voters has a copy of it; a copy counts for the node that its `meta.properties` names, and once
  in however many folders it lies; without that, for the one whose id its folder's name ends with, unless another copy
  ends at the same record and no snapshot tells them apart. A leader may
  undo any other record.
- A snapshot is a state, not an event: what only a snapshot shows has no time at which it began, but a time that it
  began by (`not_after`).
- Records of a metadata transaction take effect at its end. Behind a gap the state is in doubt until the next whole
  snapshot.

`upgrade_readiness` is as of `watermark_ts`. What happened after that no file can tell: take a verdict for `unknown`
from `valid_until` on. A file that is removed, cut or there twice makes no verdict `ready`: a hole is a doubt, and where
the end is missing from all copies the watermark is older. But records that only one copy has, at its end, can be
missing without a trace for as long as `valid_until` allows: copy the logs of all voters. The gate needs two copies.
"""


def page(note: str) -> str:
    """The page of all tables."""
    parts = ["# Tables of the pipeline", "", note, _HEAD]
    for table in TABLES.values():
        parts += [f"## {table.name}", "", table.text, "", f"Key: {', '.join(f'`{name}`' for name in table.key)}.", ""]
        parts += ["| Column | Type | Meaning |", "|---|---|---|", *_rows(table), ""]
    return "\n".join(parts)


def _rows(table: Table) -> list[str]:
    return [f"| `{one.name}` | {type_of(one.type)} | {one.text} |" for one in table.columns]


def type_of(kind: pa.DataType) -> str:
    """A type as people read it."""
    if pa.types.is_timestamp(kind):
        return "timestamp (ms, UTC)"
    if pa.types.is_list(kind):
        return f"list of {type_of(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map of {type_of(kind.key_type)} to {type_of(kind.item_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(f'{field.name}: {type_of(field.type)}' for field in kind)})"
    return str(kind)
