"""The patch in kind-config.yaml reaches kubeadm on every release of Kubernetes, by kind's own code."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.kubernetes.kind import CONFIG

AUDIT = {
    "audit-policy-file": "/etc/kubernetes/audit/policy.yaml",
    "audit-log-path": "/var/log/kubernetes/audit.log",
    "audit-log-maxsize": "10000",
}


def cluster_configuration(kubernetes: str) -> dict[str, Any]:
    """kubeadm's ClusterConfiguration for a release of Kubernetes, with the patch applied."""
    build(["kind-patch"])
    (node,) = yaml.safe_load(CONFIG.read_text())["nodes"]
    (patch,) = node["kubeadmConfigPatches"]
    made = subprocess.run(
        [binary("kind-patch"), kubernetes], input=patch, capture_output=True, text=True, check=True
    ).stdout
    (configuration,) = (
        document for document in yaml.safe_load_all(made) if document and document["kind"] == "ClusterConfiguration"
    )
    return dict(configuration)


@pytest.mark.parametrize(("kubernetes", "version"), [("v1.34.4", "v1beta3"), ("v1.37.0", "v1beta4")])
def test_the_api_server_of_a_kind_cluster_writes_an_audit_log_on_every_release(kubernetes: str, version: str) -> None:
    configuration = cluster_configuration(kubernetes)
    assert configuration["apiVersion"] == f"kubeadm.k8s.io/{version}"
    arguments = configuration["apiServer"]["extraArgs"]
    if isinstance(arguments, list):  # of names and values, from v1beta4 on
        arguments = {argument["name"]: argument["value"] for argument in arguments}
    assert arguments.items() >= AUDIT.items()
    assert {volume["name"] for volume in configuration["apiServer"]["extraVolumes"]} == {"audit-policy", "audit-log"}
