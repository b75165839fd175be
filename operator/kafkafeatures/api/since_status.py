"""Parts of a status that tell since when something is so.

Types as those of `api/status.py`, which reads them; what each field means is written in the CRD.
"""

from __future__ import annotations

from kafkafeatures.api.records import Stamp, StatusRecord


class ReadyReason(StatusRecord, frozen=True, kw_only=True):
    """The reason of Ready, and since when it is that: Ready may have been False for other reasons before. `subject`:
    the node, pod, topic or object that is waited for, or that halts it.
    """

    reason: str
    subject: str = ""
    since: Stamp


class NodeSince(StatusRecord, frozen=True, kw_only=True):
    """Since when something is so of a node."""

    node_id: int
    since: Stamp


class NodesSince(StatusRecord, frozen=True, kw_only=True):
    """Since when it is exactly these nodes, as `core/facts/node_sets.py` writes them."""

    nodes: str
    since: Stamp
