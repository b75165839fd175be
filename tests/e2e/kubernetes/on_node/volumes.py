"""Volumes of the node, for claims: local ones, of which kubelet sets the group, as of a disk."""

from __future__ import annotations

from typing import Any

from tests.e2e.rig.kubernetes.node_files import NAME as NODE_NAME


def persistent_volume(
    name: str, path: str, namespace: str, *, claim: str = "", mode: str = "ReadWriteMany", size: str = "20Gi"
) -> dict[str, Any]:
    """A folder of the node, kept for the claim of that name (its own, if none is said)."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "storageClassName": "",
        "local": {"path": path},
        "claimRef": {"namespace": namespace, "name": claim or name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claimed_volume(name: str, path: str, namespace: str) -> list[dict[str, Any]]:
    """With the claim that is bound to it."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": name,
    }
    metadata = {"name": name, "namespace": namespace}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return [persistent_volume(name, path, namespace), claim]
