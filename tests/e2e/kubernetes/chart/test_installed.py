"""The chart, installed, upgraded, rolled back and uninstalled on a real API server, which runs no pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    CRD,
    CRD_NAME,
    NAME,
    NS,
    PREVIOUS_CRD,
    WITH_REGISTRY,
    Object,
    document,
    only,
    previous_chart,
    render,
)
from tests.e2e.kubernetes.resources import delete_all
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until


@pytest.mark.usefixtures("installed")
def test_a_namespace_that_enforces_restricted_accepts_the_pod_of_the_operator_and_that_of_helm_test(
    plane: ControlPlane,
) -> None:
    selector = f"app.kubernetes.io/instance={NAME}"
    wait_until("the pod is made", lambda: plane.get("pods", "-n", NS, "-l", selector)["items"], 60)
    test = only(render(), "Pod")
    plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(test))
    test["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="violates PodSecurity"):
        plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(test))


def test_the_notes_of_the_release_print_the_next_two_commands(installed: str) -> None:
    assert f"kubectl -n {NS} exec deploy/{NAME} -- kafkafeatures init --bootstrap-server" in installed
    assert "apply -f orders.yaml && kubectl get kff -A" in installed


@pytest.mark.usefixtures("installed")
def test_an_uninstalled_release_leaves_crd_and_resources_and_a_new_one_adopts_them(
    plane: ControlPlane,
) -> None:
    plane.apply(document("orders"))
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    with pytest.raises(Refused, match="NotFound"):
        plane.get("clusterrole", NAME)
    uid = plane.get("kff", "orders", "-n", "kafka")["metadata"]["uid"]
    plane.helm("install", NAME, str(CHART), "-n", NS, *WITH_REGISTRY)
    assert plane.get("kff", "orders", "-n", "kafka")["metadata"]["uid"] == uid
    delete_all(plane)
    plane.kubectl("delete", "crd", CRD_NAME, "--timeout=20s")


@pytest.mark.usefixtures("installed")
def test_a_release_of_another_name_is_refused_unless_it_leaves_the_crd_of_the_first_or_adopts_it(
    plane: ControlPlane,
) -> None:
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    with pytest.raises(Refused, match="invalid ownership metadata"):
        plane.helm("install", "other", str(CHART), "-n", NS, *WITH_REGISTRY)
    plane.helm("install", "other", str(CHART), "-n", NS, *WITH_REGISTRY, "--set", "crds.enabled=false")
    plane.helm("uninstall", "other", "-n", NS, "--wait")
    plane.helm("install", "other", str(CHART), "-n", NS, *WITH_REGISTRY, "--take-ownership")
    plane.helm("uninstall", "other", "-n", NS, "--wait")


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def watched(plane: ControlPlane) -> str:
    """The namespaces that the pod is to watch; empty: all."""
    deployment = plane.read(f"/apis/apps/v1/namespaces/{NS}/deployments/{NAME}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(next(one for one in container["env"] if one["name"] == "KAFKAFEATURES_NAMESPACES").get("value", ""))


def roles(plane: ControlPlane) -> list[str]:
    """The namespaces with a Role of the release; `everywhere` for a ClusterRole with the same rules."""
    found = plane.read(f"{RBAC}/roles?labelSelector=app.kubernetes.io/instance={NAME}")["items"]
    everywhere = ["everywhere"] if plane.read(f"{RBAC}/clusterroles/{NAME}") else []
    return [one["metadata"]["namespace"] for one in found] + everywhere


def fields_of_status(crd: Object) -> set[str]:
    return set(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])


def test_resources_stay_unchanged_while_a_release_is_upgraded_rolled_back_and_upgraded_again(
    plane: ControlPlane, tmp_path: Path
) -> None:
    old, new = (fields_of_status(one) for one in (yaml.safe_load(PREVIOUS_CRD.read_text()), CRD))
    assert old != new

    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"

    def release() -> tuple[set[str], str, list[str]]:
        return fields_of_status(plane.read(crd)), watched(plane), roles(plane)

    plane.helm("install", NAME, str(previous_chart(tmp_path, watchAllNamespaces=True)), "-n", NS, *WITH_REGISTRY)
    before = old, "", ["everywhere"]
    assert release() == before
    plane.apply(document("orders"))
    orders = plane.get("kff", "orders", "-n", "kafka")
    upgrade = ("upgrade", NAME, str(CHART), "-n", NS, "--reset-then-reuse-values")  # as docs/how-to/install.md has it
    with pytest.raises(Refused, match="set watchAllNamespaces to true to keep it so, or list the namespaces"):
        plane.helm(*upgrade)
    assert release() == before
    plane.helm(*upgrade, "--set", "watchNamespaces={kafka}")
    assert release() == (new, "kafka", ["kafka"])
    plane.helm("rollback", NAME, "-n", NS)
    assert release() == before
    plane.helm(*upgrade, "--set", "watchNamespaces={kafka},crds.keep=false")
    assert release() == (new, "kafka", ["kafka"])
    assert plane.get("kff", "orders", "-n", "kafka") == orders
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    assert not plane.read(crd)
