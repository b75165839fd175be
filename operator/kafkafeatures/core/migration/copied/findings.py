"""Problem of a znode that is to be copied: its path, what Kafka would make of it, and what to do.

Pure. Kafka 3.9 reads znodes in two ways: what is no JSON at all it takes for empty, and says nothing; a field that is
missing, or of another type, ends the copy, and with it the controller (`ZkMigrationClient`, `KRaftMigrationDriver`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from kafkafeatures.core.facts.znodes import Ambiguous, json_of
from kafkafeatures.core.words import printable

T = TypeVar("T")

ENDS = "the controller would exit during the copy"
NEAR_LIMIT = 900 * 1024
"""Bytes of a znode; ZooKeeper takes less than 1 MiB of a request (`jute.maxbuffer`), and a change is written with
others."""


class ZnodeFinding(Struct, frozen=True):
    """One znode, what is wrong with it, and what to do. then: what the copy would make of it; may be empty."""

    path: str
    problem: str
    remedy: str
    then: str = ""

    @property
    def message(self) -> str:
        """Text that says what is wrong, and what comes of it."""
        return f"{self.problem}; {self.then}" if self.then else self.problem

    def __str__(self) -> str:
        return f"znode {printable(self.path)}: {self.message}; {self.remedy}"


def look_at(path: str) -> str:
    """The remedy where only a person can tell what a znode should say."""
    return f"look at it: zookeeper-shell.sh HOST:PORT get {printable(path)}"


def read(path: str, data: bytes, parse: Callable[[Any], T], otherwise: str) -> T | ZnodeFinding:
    """Return what `parse` makes of the JSON document in a znode; it may raise ValueError. Never raises.

    otherwise: what the copy makes of it where it is no JSON.
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
        return ZnodeFinding(path, f"cannot be read: {_why(error)}", look_at(path), ENDS)


def too_large(path: str, size: int) -> ZnodeFinding | None:
    """A znode that could not be written again with a little more in it."""
    if size < NEAR_LIMIT:
        return None
    return ZnodeFinding(
        path,
        f"has {size} bytes, and ZooKeeper takes less than 1 MiB: a change of it may not be written back",
        "make it smaller, or raise jute.maxbuffer on all ZooKeeper servers, brokers and controllers",
    )


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error))[:200]
