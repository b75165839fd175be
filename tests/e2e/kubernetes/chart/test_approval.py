"""Who may approve, as a real API server decides it: three people, and the operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    CRD_NAME,
    EVERYTHING,
    NAME,
    NS,
    WITH_REGISTRY,
    document,
    helm,
    render,
)
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until
from tests.kafkafeatures import statuses

APPROVE, RESTORED = "kafkafeatures.dev/approve", "kafkafeatures.dev/accept-restored-log"
HASH = "sha256:8c71e41eb5de"
ROLES = {"editor": ("edit",), "approver": ("edit", f"{NAME}-approve-{NS}"), "reader": ("view",)}
FORBIDDEN: dict[str, dict[str, Any]] = {
    f"the annotation {APPROVE}": {"metadata": {"annotations": {APPROVE: HASH}}},
    f"the annotation {RESTORED}": {"metadata": {"annotations": {RESTORED: "x@3"}}},
    "spec.approval.planHash": {"spec": {"approval": {"planHash": HASH}}},
    "spec.approval.policy, other than Always,": {"spec": {"approval": {"policy": "Never"}}},
    "spec.consents": {"spec": {"consents": ["dynamic-quorum"]}},
}
"""Parts of a resource that only a user with the verb `approve` may change, each with such a change."""


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> Iterator[ControlPlane]:
    values = ("--set", "approvalPolicy.enabled=true", "--set", "watchNamespaces={kafka}")
    plane.helm("install", NAME, str(CHART), "-n", NS, *values, *WITH_REGISTRY)
    for user, roles in ROLES.items():
        for role in roles:
            plane.kubectl(
                "create", "rolebinding", f"{user}-{role}", "-n", "kafka", f"--clusterrole={role}", f"--user={user}"
            )
    plane.kubectl("wait", "--for=condition=Established", f"crd/{CRD_NAME}")
    plane.apply(document("orders"))

    def is_enforced() -> bool:
        try:
            change(plane, "editor", FORBIDDEN["spec.consents"])
        except Refused as refused:
            return "verb approve" in str(refused)
        change(plane, "approver", {"spec": {"consents": None}})
        return False

    wait_until("the policy is enforced", is_enforced, 60)
    yield plane
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    plane.kubectl("delete", "crd", CRD_NAME)


def change(plane: ControlPlane, user: str, patch: dict[str, Any], *more: str) -> None:
    plane.kubectl(
        "patch", "kff", "orders", "-n", "kafka", "--type=merge", f"--patch={json.dumps(patch)}", f"--as={user}", *more
    )


@pytest.mark.parametrize("part", FORBIDDEN)
def test_a_user_without_the_verb_approve_may_change_a_resource_but_neither_approve_nor_consent(
    guarded: ControlPlane, part: str
) -> None:
    patch = FORBIDDEN[part]
    with pytest.raises(Refused, match=f"{part} needs the verb approve on kafkafeatures"):
        change(guarded, "editor", patch)
    change(guarded, "approver", patch)
    change(guarded, "editor", {"spec": {"suspend": True}})  # other fields need no such right
    empty = {"metadata": {"annotations": {APPROVE: None, RESTORED: None}}, "spec": {"approval": None, "consents": None}}
    if "policy" not in part:  # approvals and consents may be withdrawn without the verb
        change(guarded, "editor", empty)
    change(guarded, "approver", empty)


def test_a_user_without_the_verb_approve_may_not_create_a_resource_with_an_approval(guarded: ControlPlane) -> None:
    made = document("made")
    for patch in FORBIDDEN.values():
        both = {
            **made,
            "metadata": {**made["metadata"], **patch.get("metadata", {})},
            "spec": {**made["spec"], **patch.get("spec", {})},
        }
        with pytest.raises(Refused, match="needs the verb approve"):
            guarded.kubectl("create", "-f", "-", "--as=editor", input=json.dumps(both))
    strict = {**made, "spec": {**made["spec"], "approval": {"policy": "Always"}}}
    guarded.kubectl("create", "-f", "-", "--as=editor", input=json.dumps(strict))
    guarded.kubectl("delete", "kff", "made", "-n", "kafka", "--as=editor")


EVIDENCE = {"prometheus": {"url": "https://prometheus:9090"}, "target": "4.1"}


def test_a_gate_for_clients_is_made_weaker_only_with_the_verb_approve(guarded: ControlPlane) -> None:
    change(guarded, "editor", {"spec": {"clientEvidence": {**EVIDENCE, "policy": "Report"}}})
    change(guarded, "editor", {"spec": {"clientEvidence": {"windowDays": 14}}})
    change(guarded, "editor", {"spec": {"clientEvidence": {"policy": "Gate"}}})  # a stricter policy needs no such right
    for evidence in ({"policy": "Report"}, {"windowDays": 1}, {"target": "3.9"}, None):
        with pytest.raises(Refused, match="while its policy is Gate, needs the verb approve"):
            change(guarded, "editor", {"spec": {"clientEvidence": evidence}})
    change(guarded, "editor", {"spec": {"suspend": False}})
    change(guarded, "approver", {"spec": {"clientEvidence": None}})


def test_invalid_settings_for_evidence_about_clients_are_refused(guarded: ControlPlane) -> None:
    for evidence, message in (
        ({"prometheus": EVIDENCE["prometheus"]}, "clientEvidence needs a release"),
        # a token without TLS
        ({"prometheus": {"url": "http://p:9090", "tokenSecretRef": {"name": "t"}}, "target": "4.1"}, "https://"),
        # a password in the URL
        ({"prometheus": {"url": "https://u:p@p:9090"}, "target": "4.1"}, "should match"),
        ({"prometheus": {"url": "https://p", "brokerPattern": "b-([0-9]+)"}, "target": "4.1"}, "needs brokerLabel"),
        # a pattern that can take exponential time
        ({"prometheus": {"url": "https://p", "brokerLabel": "pod", "brokerPattern": "(a+)+"}, "target": "4.1"},
         "should match"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=message):
            change(guarded, "approver", {"spec": {"clientEvidence": evidence}})


def test_the_approval_policy_changes_no_right_of_readers_and_of_the_operator(guarded: ControlPlane) -> None:
    with pytest.raises(Refused, match=r'cannot patch resource "kafkafeatures"'):
        change(guarded, "reader", FORBIDDEN["spec.consents"])
    operator = f"system:serviceaccount:{NS}:{NAME}"
    one = guarded.get("kff", "orders", "-n", "kafka")
    one["metadata"]["annotations"] = {APPROVE: HASH}
    one["status"] = {"operatorVersion": "9.9"}
    guarded.kubectl("replace", "--subresource=status", "-f", "-", f"--as={operator}", input=json.dumps(one))
    now = guarded.get("kff", "orders", "-n", "kafka")
    assert now["status"] == {"operatorVersion": "9.9"}
    # A write of the status changes no annotation, so the operator cannot approve by one.
    assert APPROVE not in now["metadata"].get("annotations", {})


def test_the_command_line_names_the_right_that_an_approval_needs(guarded: ControlPlane, tmp_path: Path) -> None:
    one = guarded.get("kff", "orders", "-n", "kafka")
    guarded.kubectl(
        "replace", "--subresource=status", "-f", "-",
        input=json.dumps({**one, "status": statuses.waiting_for_approval(one["metadata"]["generation"])}),
    )  # fmt: skip
    people = {
        name: Person(tmp_path / name, guarded.authority.kubeconfig(name, guarded.server, user=name)) for name in ROLES
    }
    done = people["editor"].run("approve", "orders", "-n", "kafka", "--yes")
    assert done.returncode == 5
    assert f"the annotation {APPROVE} needs the verb approve on kafkafeatures" in " ".join(done.stderr.split())
    done = people["approver"].run("approve", "orders", "-n", "kafka", "--yes")
    assert done.returncode == 0, done.stderr


def test_releases_of_the_same_name_in_two_namespaces_share_no_object() -> None:
    """The values leave out what only one of two releases may own (docs/how-to/install.md)."""
    values = {"approvalPolicy": {"enabled": True}, "rbac": {"aggregateClusterRoles": False}, "crds": {"enabled": False}}
    of_one, of_other = (
        {
            (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace"))
            for one in render(values, namespace=ns)
        }
        for ns in ("one", "other")
    )
    assert ("ClusterRole", f"{NAME}-approve-one", None) in of_one
    assert not of_one & of_other


def test_the_approval_policy_is_refused_on_a_kubernetes_without_validating_admission_policies() -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", "1.29.0", values={"approvalPolicy": {"enabled": True}})
    assert done.returncode != 0
    assert "ValidatingAdmissionPolicy needs Kubernetes 1.30 or newer, this is v1.29.0" in done.stderr


def test_the_approval_policy_is_bound_to_the_namespaces_that_the_operator_watches() -> None:
    def selected(**values: Any) -> Any:
        objects = render({**values, "approvalPolicy": {"enabled": True}})
        (binding,) = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicyBinding"]
        return binding["spec"].get("matchResources")

    assert selected(watchAllNamespaces=True) is None
    for named, watched in (([], [NS]), (EVERYTHING["watchNamespaces"], EVERYTHING["watchNamespaces"])):
        (chosen,) = selected(watchNamespaces=named)["namespaceSelector"]["matchExpressions"]
        assert chosen == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": watched}
