"""Interface of a node with pods, whether it is the rig's own (`node.Node`) or one of kind (`kind.KindNode`)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tests.e2e.rig.kubernetes.tools import Tools


class AnyNode(Protocol):
    """A node behind a control plane. Tests that need more of it run only on the rig's own."""

    @property
    def control_plane(self) -> Tools:
        """kubectl and helm as the administrator."""

    @property
    def address(self) -> str:
        """Address at which this machine reaches it."""

    @property
    def pods(self) -> str:
        """The network of its pods, as `ADDRESS/PREFIX`."""

    def load_image(self, archive: Path) -> None:
        """Load the images of an archive, for pods."""

    def kill_container(self, container_id: str, signal_: str = "SIGKILL") -> None:
        """Send a signal to the first process of a container. `container_id`: as in a pod's status, `containerd://...`."""

    @staticmethod
    def data_of_pods(name: str) -> str:
        """A folder of the node that pods may mount as a hostPath."""

    def remove_data(self, name: str) -> None:
        """Remove a folder of `data_of_pods`."""
