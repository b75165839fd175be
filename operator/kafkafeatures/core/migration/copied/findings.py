"""Problems of znodes that a migration would copy: path, consequence and remedy of each; and a reader that finds them.

Pure. Called by the readers of znodes in this folder, and by `zookeeper/copied.py`. Kafka 3.9 handles bad znodes in two
ways: content that is no JSON at all counts as empty, without an error; a field that is missing, or of another type,
ends the copy, and with it the controller (`ZkMigrationClient`, `KRaftMigrationDriver`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from kafkafeatures.core.facts.znodes import Ambiguous, json_of
from kafkafeatures.core.words import printable

T = TypeVar("T")

EXITS = "the controller would exit during the copy"
"""Consequence of a field that is missing or of another type."""
NEAR_LIMIT = 900 * 1024
"""Bytes of a znode from which on a change may fail: ZooKeeper accepts requests below 1 MiB (`jute.maxbuffer`), and
Kafka sends several changes in one.
"""


class ZnodeFinding(Struct, frozen=True):
    """A problem of a znode, with a remedy. `consequence`: the one for the copy; empty if that is not known."""

    path: str
    problem: str
    remedy: str
    consequence: str = ""

    @property
    def message(self) -> str:
        """The problem and its consequence."""
        return f"{self.problem}; {self.consequence}" if self.consequence else self.problem

    def __str__(self) -> str:
        return f"znode {printable(self.path)}: {self.message}; {self.remedy}"


def look_at(path: str) -> str:
    """Remedy if only a person can tell what the content of a znode should be."""
    return f"look at it: zookeeper-shell.sh HOST:PORT get {printable(path)}"


def read(path: str, data: bytes, parse: Callable[[Any], T], otherwise: str) -> T | ZnodeFinding:
    """Result of `parse` for the JSON document in a znode, or a finding. `parse` may raise ValueError; this never
    raises.

    otherwise: consequence for the copy if the content is no JSON.
    """
    try:
        document = json_of(data)
    except Ambiguous as error:
        return ZnodeFinding(path, f"cannot be read with certainty: {error}", look_at(path))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        return ZnodeFinding(path, f"cannot be read: {_why(error)}", look_at(path), otherwise)
    try:
        return parse(document)
    except ValueError as error:  # so is msgspec.ValidationError
        return ZnodeFinding(path, f"cannot be read: {_why(error)}", look_at(path), EXITS)


def too_large(path: str, size: int) -> ZnodeFinding | None:
    """Finding for a znode of this size in bytes, if it can hardly grow; else None."""
    if size < NEAR_LIMIT:
        return None
    return ZnodeFinding(
        path,
        f"has {size} bytes, and ZooKeeper takes less than 1 MiB: a change of it may not be written back",
        "make it smaller, or raise jute.maxbuffer on all ZooKeeper servers, brokers and controllers",
    )


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error))[:200]
