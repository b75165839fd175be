"""Parts of a status with the time since which a state lasts.

The types belong to those of `api/status.py`. The CRD has the meaning of each field.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.records import Stamp, StatusRecord


class ReadyReason(StatusRecord, frozen=True, kw_only=True):
    """The reason of Ready, and since when. `subject`: node, pod, topic or other object that is waited for, or halts."""

    reason: str
    subject: str = ""
    since: Stamp


class NodeSince(StatusRecord, frozen=True, kw_only=True):
    """A node, and since when it is in the state that the field is about."""

    node_id: int
    since: Stamp


class NotifiedStatus(StatusRecord, frozen=True, kw_only=True):
    """A notification that was delivered (`core/report/notifications.py`), and when it last was."""

    KEY: ClassVar[tuple[str, ...]] = ("key",)

    key: str
    at: Stamp


class NodesSince(StatusRecord, frozen=True, kw_only=True):
    """The nodes in the state that the field is about, in the form of `core/facts/node_sets.py`, and since when it is
    exactly these.
    """

    nodes: str
    since: Stamp
