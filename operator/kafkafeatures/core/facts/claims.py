"""Claim to be the controller of a cluster that keeps or kept its metadata in ZooKeeper. A value."""

from __future__ import annotations

from msgspec import Struct


class ControllerClaim(Struct, frozen=True):
    """Content of `/controller`: the node that is controller. kraft_epoch: -1 for a broker that was elected in
    ZooKeeper.
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
