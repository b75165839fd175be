"""Content of the znode `/controller`: the claim of a node to be the controller of a cluster with ZooKeeper. A value."""

from __future__ import annotations

from msgspec import Struct


class ControllerClaim(Struct, frozen=True):
    """Claim of a node to be the controller.

    kraft_epoch: epoch of the leader of a KRaft quorum; -1 for a broker that was elected in ZooKeeper.
    is_ephemeral: the znode goes away with the session of its broker.
    czxid, version: id of the transaction that created the znode, and number of its writes.
    """

    node_id: int
    kraft_epoch: int
    is_ephemeral: bool
    czxid: int
    version: int

    @property
    def is_kraft(self) -> bool:
        """Tell whether the leader of a KRaft quorum made the claim (KIP-866); its znode is persistent."""
        return self.kraft_epoch >= 0
