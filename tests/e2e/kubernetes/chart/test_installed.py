"""Installed, upgraded, uninstalled on a real API server; no pod ever runs there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.e2e.kubernetes.chart.rendering import CHART, CRD_NAME, NAME, NS, document, only, render
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until


@pytest.mark.usefixtures("installed")
def test_a_namespace_that_enforces_restricted_takes_the_pod_and_its_test(plane: ControlPlane) -> None:
    selector = f"app.kubernetes.io/instance={NAME}"
    wait_until("the pod is made", lambda: plane.get("pods", "-n", NS, "-l", selector)["items"], 60)
    test = only(render(), "Pod")
    plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(test))
    test["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="violates PodSecurity"):
        plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(test))


def test_the_notes_say_the_two_next_commands(installed: str) -> None:
    assert f"kubectl -n {NS} exec deploy/{NAME} -- kafkafeatures init --bootstrap-server" in installed
    assert "apply -f orders.yaml && kubectl get kff -A" in installed


@pytest.mark.usefixtures("installed")
def test_uninstalled_it_leaves_the_crd_and_the_resources_and_installed_again_it_takes_them_over(
    plane: ControlPlane,
) -> None:
    plane.apply(document("orders"))
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    with pytest.raises(Refused, match="NotFound"):
        plane.get("clusterrole", NAME)
    uid = plane.get("kff", "orders", "-n", "kafka")["metadata"]["uid"]
    plane.helm("install", NAME, str(CHART), "-n", NS)
    assert plane.get("kff", "orders", "-n", "kafka")["metadata"]["uid"] == uid
    plane.kubectl("delete", "kff", "--all", "-A", "--timeout=20s")
    plane.kubectl("delete", "crd", CRD_NAME, "--timeout=20s")


@pytest.mark.usefixtures("installed")
def test_a_release_of_another_name_leaves_a_crd_that_is_not_its_own_alone_or_takes_it_over(plane: ControlPlane) -> None:
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    with pytest.raises(Refused, match="invalid ownership metadata"):
        plane.helm("install", "other", str(CHART), "-n", NS)
    plane.helm("install", "other", str(CHART), "-n", NS, "--set", "crds.enabled=false")
    plane.helm("uninstall", "other", "-n", NS, "--wait")
    plane.helm("install", "other", str(CHART), "-n", NS, "--take-ownership")
    plane.helm("uninstall", "other", "-n", NS, "--wait")


def test_an_upgrade_of_the_chart_upgrades_the_crd(plane: ControlPlane, tmp_path: Path) -> None:
    old = shutil.copytree(CHART, tmp_path / "old")
    crd = yaml.safe_load((old / "files" / "crd.yaml").read_text())
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    missing = columns.pop()
    (old / "files" / "crd.yaml").write_text(yaml.safe_dump(crd))
    plane.helm("install", NAME, str(old), "-n", NS)
    plane.apply(document("orders"))
    plane.helm("upgrade", NAME, str(CHART), "-n", NS, "--reset-then-reuse-values")
    assert missing in plane.get("crd", CRD_NAME)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert plane.get("kff", "orders", "-n", "kafka")
    plane.helm("upgrade", NAME, str(CHART), "-n", NS, "--set", "crds.keep=false")
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    with pytest.raises(Refused, match="NotFound"):
        plane.get("crd", CRD_NAME)
