"""Newest revision of each set of pods, which `wait --for rolled` compares with a status. Made by a driver's module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kafkafeatures.core.engine.blockers import Blocker

Json = Mapping[str, Any]


class Template(NamedTuple):
    """Update revision of a set of pods, and how many there should be.

    revision: empty while its controller has not processed the newest template: until then the update revision in the
        status is that of an older one. Also empty where another operator has not made the set, as `pending` says.
    pending: what another operator has not processed yet, so that the revision may change once more; empty for nothing.
    halt: what keeps that operator from restarting these pods until a person acts; None for nothing.
    """

    revision: str
    replicas: int
    pending: str = ""
    halt: Blocker | None = None


Templates = Mapping[str, Template | None]
"""The sets of pods of a document, by name; None for one that does not exist."""


class ObjectReader(Protocol):
    """Reads objects of one namespace, with the rights of a person."""

    @property
    def answered_at(self) -> datetime:
        """Time of the last answer, by the API server's clock; by ours where it has none."""

    def object_of(self, plural: tuple[str, str], version: str, name: str) -> Json | None:
        """One object; None if it does not exist. `plural`: of its kind, and its group. `version`: with the group."""

    def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> Iterable[Json]:
        """All objects that the label selector matches."""
