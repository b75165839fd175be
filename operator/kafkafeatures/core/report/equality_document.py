"""Output of `kafkafeatures migration compare`, as a document and in lines for people.

Pure. `core/migration/equality.py` judges whether ZooKeeper and the metadata log have the same metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.migration.equality import REMEDY, Differs, Equal, Equality
from kafkafeatures.core.report.migration_document import not_read
from kafkafeatures.core.words import printable

if TYPE_CHECKING:
    from kafkafeatures.api.records import Json


def equality_document(equality: Equality) -> Json:
    """A comparison as a document.

    `equal` is null if that is not known, and `notRead` has the cause. `offset` is the end of the part of the metadata
    log that was compared. `inLog` is null if the znode cannot be read, and `inZooKeeper` has the cause.
    """
    if isinstance(equality, Unknown):
        return {
            "equal": None,
            "offset": None,
            "counts": {},
            "differences": [],
            "more": 0,
            "notRead": [not_read(equality.failure)],
        }
    differs = equality if isinstance(equality, Differs) else None
    return {
        "equal": differs is None,
        "offset": equality.offset,
        "counts": {kind.value: number for kind, number in differs.counts.items()} if differs else {},
        "differences": [
            {
                "kind": difference.kind.value,
                "name": difference.name,
                "znode": difference.path,
                "inZooKeeper": difference.in_zookeeper,
                "inLog": difference.in_log or None,
            }
            for difference in (differs.differences if differs else ())
        ],
        "more": differs.omitted if differs else 0,
        "notRead": [],
    }


def equality_lines(equality: Equal | Differs) -> Iterator[str]:
    """Lines with the result, then each difference, then the remedy."""
    if isinstance(equality, Equal):
        yield f"ZooKeeper and the metadata log say the same, up to offset {equality.offset}."
        return
    yield f"{equality}."
    yield from map(str, equality.differences)
    if equality.omitted:
        yield f"and {equality.omitted} more"
    yield f"What to do: {printable(REMEDY)}."
