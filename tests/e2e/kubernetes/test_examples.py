"""Examples in docs about Kubernetes: commands print the output that a page shows, with a real API server and a
simulated cluster; manifests are accepted.
"""

from __future__ import annotations

from pathlib import Path

from tests.contract.test_documentation import BLOCK
from tests.e2e.kubernetes.resources import Resources, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.examples import ROOT, on_kubernetes
from tests.kafkasim.test_process import heard, simulator

CLUSTER = ("--release", "4.2", "--metadata-version", "25")


def test_the_commands_of_a_page_about_kubernetes_print_the_output_that_the_page_shows(
    control_plane: ControlPlane, operator: Operator, tmp_path: Path
) -> None:
    resources = Resources(control_plane)
    with simulator(*CLUSTER) as kafka:
        cluster = {"bootstrapServers": str(heard(kafka)["bootstrapServers"])}
        features = {"releaseVersion": "4.2"}
        resources.apply("orders", cluster=cluster, features=features, approval={"policy": "Always"})
        resources.until("orders", "ApprovalRequired", "PlanPending")
        kubeconfig = str(control_plane.kubeconfig)
        try:
            on_kubernetes("approval", resources.status("orders"), tmp_path, KUBECONFIG=kubeconfig)
        finally:  # else the next module finds it
            resources.delete("orders")


def test_an_api_server_accepts_the_manifests_of_the_page_about_a_migration_unchanged(
    control_plane: ControlPlane,
) -> None:
    """Every field is one that it knows; `migrations/test_page.py` runs them."""
    install(control_plane)
    blocks = [one["text"] for one in BLOCK.finditer((ROOT / "docs/how-to/migrate-on-kubernetes.md").read_text())]
    assert sum(one.count("kind: ") for one in blocks) >= 8
    for text in blocks:
        control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
