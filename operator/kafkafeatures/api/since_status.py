"""Parts of a status with the time since which a state lasts.

Types as those of `api/status.py`, which reads them; what each field means is written in the CRD.
"""

from __future__ import annotations

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


class NodesSince(StatusRecord, frozen=True, kw_only=True):
    """A set of nodes, in the form of `core/facts/node_sets.py`, and since when the state is that of exactly these."""

    nodes: str
    since: Stamp
