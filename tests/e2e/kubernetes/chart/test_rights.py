"""Rights of the operator: as the chart renders them, as they are documented, and as a real API server grants them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkafeatures.kube.workloads import followed_pods, strimzi
from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    EVERYTHING,
    NAME,
    NS,
    ROOT,
    WITH_REGISTRY,
    Object,
    Values,
    document,
    helm,
    of_kind,
    only,
    pod_spec,
    render,
)
from tests.e2e.kubernetes.resources import RIGHTS, RIGHTS_TO_ROLL
from tests.e2e.rig.kubernetes.audit import Row
from tests.e2e.rig.kubernetes.binaries import KUBERNETES
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until

Right = tuple[str, str, str]
"""API group, resource, verb. A URL that is no resource stands for one; it begins with a slash."""


def rights(rules: Iterable[Object]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", ("",))
        for resource in rule.get("resources", []) + rule.get("nonResourceURLs", [])
        for verb in rule["verbs"]
    }


def documented(driver: str = "") -> set[Right]:
    """The documented rights that the operator always needs; with a `driver`, those that it needs in addition."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    always, _, of_stateful_sets = page.partition("`workload.driver: StatefulSet` it also needs")
    of_stateful_sets, _, of_strimzi = of_stateful_sets.partition("`cluster.strimzi` it needs the following rights")
    of_strimzi, _, of_pods = of_strimzi.partition("`workload.driver: Pods` it needs one right")
    page = {"": always, "StatefulSet": of_stateful_sets, "Strimzi": of_strimzi, "Pods": of_pods}[driver]
    rows = re.findall(r"^\| (core|URLs|`[\w.]+`) \| (`[^|]+`) \| ([^|]+) \| .+ \|$", page, re.MULTILINE)
    return {
        (group.strip("`") if "`" in group else "", resource, verb)
        for group, resources, verbs in rows
        for resource in re.findall(r"`([\w./]+)`", resources)
        for verb in re.findall(r"`(\w+)`", verbs)
    }


ALL: Values = {"watchAllNamespaces": True}


@pytest.mark.parametrize("values", [{}, ALL, {"watchNamespaces": ["kafka"]}], ids=str)
def test_the_operator_has_exactly_the_rights_that_are_documented(values: Values) -> None:
    objects = render({**values, "rbac": {"aggregateClusterRoles": False}})
    rules = [rule for one in objects if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]
    assert rights(rules) == documented() == rights(RIGHTS)
    # no field that limits a rule, such as resourceNames
    assert {tuple(rule) for rule in rules} == {("apiGroups", "resources", "verbs"), ("nonResourceURLs", "verbs")}


@pytest.mark.parametrize(("named", "watched"), [([], [NS]), (["kafka", "payments"], ["kafka", "payments"])], ids=str)
def test_the_operator_has_rights_only_in_its_namespaces_and_may_discover_kinds(
    named: list[str], watched: list[str]
) -> None:
    objects = render({"watchNamespaces": named, "rbac": {"aggregateClusterRoles": False}})
    (discovery,) = only(objects, "ClusterRole")["rules"]
    assert set(discovery) == {"nonResourceURLs", "verbs"}
    for kind in ("Role", "RoleBinding"):
        assert [one["metadata"]["namespace"] for one in of_kind(objects, kind)] == watched
    (container,) = pod_spec(objects)["containers"]
    assert {"name": "KAFKAFEATURES_NAMESPACES", "value": ",".join(watched)} in container["env"]


def test_with_watch_all_namespaces_the_operator_has_its_rights_in_all_and_watches_all() -> None:
    objects = render({**ALL, "rbac": {"aggregateClusterRoles": False}})
    assert any("secrets" in rule.get("resources", ()) for rule in only(objects, "ClusterRole")["rules"])
    assert not of_kind(objects, "Role")
    (container,) = pod_spec(objects)["containers"]
    assert {"name": "KAFKAFEATURES_NAMESPACES", "value": ""} in container["env"]


def test_watch_all_namespaces_together_with_a_list_of_namespaces_is_refused() -> None:
    both: Values = {**ALL, "watchNamespaces": ["kafka"]}
    done = helm("template", NAME, str(CHART), "--kube-version", KUBERNETES, values=both)
    assert done.returncode != 0
    assert "watchAllNamespaces is true, but watchNamespaces lists namespaces: set only one of the two" in done.stderr


@pytest.mark.parametrize("values", [ALL, {"watchNamespaces": ["kafka", "payments"]}], ids=str)
def test_pods_may_be_restarted_only_where_a_driver_names_the_namespace(values: Values) -> None:
    before = render(values)
    objects = render({**values, "drivers": {"statefulSet": ["payments"]}})
    (role,) = (one for one in of_kind(objects, "Role") if one["metadata"]["name"] == f"{NAME}-stateful-sets")
    assert role["metadata"]["namespace"] == "payments"
    assert rights(role["rules"]) == documented("StatefulSet") == rights(RIGHTS_TO_ROLL)
    assert not any("delete" in rule["verbs"] or "update" in rule["verbs"] for rule in role["rules"])
    assert [one for one in objects if one["kind"] == "ClusterRole"] == [
        one for one in before if one["kind"] == "ClusterRole"
    ]
    added = [one for one in objects if one not in before]
    assert {one["kind"] for one in added} == {"Role", "RoleBinding"}


@pytest.mark.parametrize("values", [ALL, {"watchNamespaces": ["kafka", "payments"]}], ids=str)
def test_pods_of_strimzi_may_be_annotated_only_where_a_driver_names_the_namespace(values: Values) -> None:
    before = render(values)
    of_strimzi: Values = {"drivers": {"strimzi": ["payments"]}, "podPatchPolicy": {"enabled": False}}
    added = [one for one in render({**values, **of_strimzi}) if one not in before]
    role, binding = sorted(added, key=lambda one: len(one["kind"]))
    assert rights(role["rules"]) == documented("Strimzi") == set(strimzi.RIGHTS)
    assert (role["metadata"]["namespace"], binding["metadata"]["namespace"]) == ("payments", "payments")


def test_pods_may_be_listed_for_the_driver_pods_only_where_it_names_the_namespace() -> None:
    values: Values = {"watchNamespaces": ["kafka", "payments"]}
    before = render(values)
    added = [one for one in render({**values, "drivers": {"pods": ["payments"]}}) if one not in before]
    role, binding = sorted(added, key=lambda one: len(one["kind"]))
    assert rights(role["rules"]) == documented("Pods") == set(followed_pods.RIGHTS)
    assert (role["metadata"]["namespace"], binding["metadata"]["namespace"]) == ("payments", "payments")


@pytest.mark.parametrize("driver", ["statefulSet", "strimzi", "pods"])
def test_a_driver_in_a_namespace_that_is_not_watched_is_refused(driver: str) -> None:
    values: Values = {"watchNamespaces": ["kafka"], "drivers": {driver: ["x"]}}
    done = helm("template", NAME, str(CHART), "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert "does not watch the namespace x; add it to watchNamespaces" in done.stderr


def test_a_user_who_may_create_no_cluster_role_can_install_the_chart_for_namespaces() -> None:
    rbac = {"aggregateClusterRoles": False, "discovery": False}
    objects = render({"watchNamespaces": ["kafka"], "rbac": rbac, "crds": {"enabled": False}})
    assert not [one["kind"] for one in objects if one["kind"].startswith(("Cluster", "CustomResource"))]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["nothing set", "everything set"])
def test_every_binding_is_for_the_account_of_the_pod(values: Values) -> None:
    objects = render(values)
    account = only(objects, "ServiceAccount")["metadata"]["name"]
    assert pod_spec(objects)["serviceAccountName"] == account
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    assert bindings
    for one in bindings:
        assert one["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NS}]
        assert one["roleRef"]["name"] == one["metadata"]["name"]
        assert [role for role in of_kind(objects, one["roleRef"]["kind"]) if role["metadata"] == one["metadata"]]


def test_rights_can_be_left_to_an_administrator() -> None:
    objects = render({"rbac": {"create": False, "aggregateClusterRoles": False}, "serviceAccount": {"create": False}})
    assert {one["kind"] for one in objects} == {"CustomResourceDefinition", "Deployment", "Pod", "Service"}
    assert pod_spec(objects)["serviceAccountName"] == "default"


def test_the_token_is_mounted_into_the_pod_of_the_operator_alone() -> None:
    objects = render()
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert only(objects, "Pod")["spec"]["automountServiceAccountToken"] is False
    assert pod_spec(objects)["automountServiceAccountToken"] is True


def can(plane: ControlPlane, who: str, verb: str, resource: str, group: str = "kafkafeatures.dev") -> bool:
    """True if the API server grants this right. `resource`: as in a role, such as pods or pods/eviction; or a URL."""
    plain, _, part = resource.partition("/")
    asked: Object = {"namespace": "kafka", "verb": verb, "group": group, "resource": plain, "subresource": part}
    attributes = {"resourceAttributes": asked} if plain else {"nonResourceAttributes": {"path": resource, "verb": verb}}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": who, **attributes},
    }
    answer = json.loads(plane.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review)))
    return bool(answer["status"]["allowed"])


ACCOUNT = f"system:serviceaccount:{NS}:{NAME}"


def upgrade(plane: ControlPlane, values: Values) -> None:
    sets = (word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}"))
    plane.helm("upgrade", NAME, str(CHART), "-n", NS, "--reset-values", *WITH_REGISTRY, *sets)


@pytest.mark.usefixtures("installed")
def test_the_account_may_read_in_other_namespaces_only_while_all_are_watched(plane: ControlPlane) -> None:
    assert not can(plane, ACCOUNT, "get", "secrets", "")
    assert not can(plane, ACCOUNT, "get", "kafkafeatures")
    upgrade(plane, ALL)
    wait_until("it may", lambda: can(plane, ACCOUNT, "get", "secrets", ""), 30)
    with pytest.raises(Refused, match="set watchAllNamespaces to true to keep it so, or list the namespaces"):
        upgrade(plane, {})
    upgrade(plane, {"watchNamespaces": [NS]})
    wait_until("it may not any more", lambda: not can(plane, ACCOUNT, "get", "secrets", ""), 30)
    upgrade(plane, {})


@pytest.mark.usefixtures("installed")
def test_an_upgrade_that_would_silently_stop_watching_all_namespaces_is_refused_also_without_own_roles(
    plane: ControlPlane,
) -> None:
    for right in ("create", "discovery"):
        left: Values = {f"rbac.{right}": False}
        upgrade(plane, {**ALL, **left})
        with pytest.raises(Refused, match="set watchAllNamespaces to true to keep it so, or list the namespaces"):
            upgrade(plane, left)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("values", [ALL, {"watchNamespaces": ["kafka"]}], ids=str)
def test_the_account_has_exactly_the_documented_rights(plane: ControlPlane, values: Values) -> None:
    upgrade(plane, values)
    wait_until("it has its rights", lambda: can(plane, ACCOUNT, "get", "secrets", ""), 30)
    for group, resource, verb in documented():
        assert can(plane, ACCOUNT, verb, resource, group), (resource, verb)
    for verb, resource, group in (
        ("list", "secrets", ""),
        ("update", "kafkafeatures", "kafkafeatures.dev"),
        ("patch", "kafkafeatures/status", "kafkafeatures.dev"),
        ("create", "pods", ""),
        ("get", "namespaces", ""),
        ("get", "customresourcedefinitions", "apiextensions.k8s.io"),
        ("get", "/metrics", ""),
        ("get", "/logs", ""),
    ):
        assert not can(plane, ACCOUNT, verb, resource, group), (resource, verb)


@pytest.fixture
def hardened(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster without the default binding by which every account may discover the kinds of objects."""
    default = plane.get("clusterrolebinding", "system:discovery")
    plane.kubectl("delete", "clusterrolebinding", "system:discovery")
    yield plane
    plane.apply({**default, "metadata": {"name": "system:discovery"}})


def of_kopf(rows: Iterable[Row]) -> list[Row]:
    """The requests of kopf, the library that watches resources for the operator."""
    return [row for row in rows if row.agent.endswith("(kopf)")]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("namespaces", [(), ("kafka",)], ids=["all namespaces", "one namespace"])
def test_the_operator_watches_with_the_rights_of_the_chart_alone(
    hardened: ControlPlane, tmp_path: Path, namespaces: tuple[str, ...]
) -> None:
    upgrade(hardened, {"watchNamespaces": namespaces} if namespaces else ALL)
    mark = hardened.audit.mark()
    with Operator(hardened, tmp_path, *namespaces):  # it is ready once it watches
        hardened.apply(document("late"))
        path = "/apis/kafkafeatures.dev/v1alpha1/namespaces/kafka/kafkafeatures/late"
        wait_until("it was worked on", lambda: hardened.read(path).get("status"))
    assert of_kopf(hardened.audit.wait_for(list, mark, user=USER, verb="watch", code=200))
    rows = hardened.audit.rows(mark, user=USER)
    assert not [row for row in rows if row.code == 403]
    asked = {("", row.uri.partition("?")[0], row.verb) for row in rows if not row.resource}
    assert asked == {right for right in documented() if right[1].startswith("/")}
    hardened.kubectl("delete", "kff", "--all", "-A", "--timeout=20s")


@pytest.mark.usefixtures("installed")
def test_users_with_the_roles_view_and_edit_may_view_and_edit_resources_but_no_status(plane: ControlPlane) -> None:
    ours = "kafkafeatures"
    for role in ("view", "edit"):
        plane.kubectl("create", "rolebinding", f"{role}er", f"--clusterrole={role}", f"--user={role}er", "-n", "kafka")
    try:
        wait_until("the roles are aggregated", lambda: can(plane, "editer", "create", ours), 30)
        assert can(plane, "viewer", "list", ours)
        assert not can(plane, "viewer", "update", ours)
        assert all(can(plane, "editer", verb, ours) for verb in ("get", "update", "patch", "delete"))
        assert not any(can(plane, "editer", verb, f"{ours}/status") for verb in ("update", "patch"))
    finally:
        plane.kubectl("delete", "rolebinding", "viewer", "editer", "-n", "kafka")
