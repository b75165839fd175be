"""The chart with real helm: what it renders, what it refuses, and what a real API server makes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes.resources import RIGHTS
from tests.e2e.rig.kubernetes.audit import Row
from tests.e2e.rig.kubernetes.binaries import KUBERNETES, binary, build
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "kafka-features-operator"
CRD = yaml.safe_load((ROOT / "crds" / "kafkafeatures.yaml").read_text())
CRD_NAME = CRD["metadata"]["name"]
NAME, NS = "kafka-features-operator", "operator"

Object = dict[str, Any]
Values = Mapping[str, Any]
EVERYTHING: Values = {
    "watchNamespaces": ["kafka", "payments"],
    "image": {"repository": "elsewhere/kff", "tag": "9.9", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"name": "kff", "annotations": {"team": "kafka"}},
    "addresses": {"allow": ["10.0.0.0/8", "fd00::/8"], "deny": ["10.1.0.0/16"]},
    "extraEnv": [{"name": "TZ", "value": "Europe/Oslo"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/kafka"},
        "grafanaDashboard": {"enabled": True},
    },
}


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    build(["helm"])


def helm(*arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
    words = [binary("helm"), *arguments, *(() if values is None else ("--values", "-"))]
    given = None if values is None else json.dumps(values)
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=60)


def render(values: Values | None = None, *, name: str = NAME, kubernetes: str = KUBERNETES) -> list[Object]:
    done = helm("template", name, str(CHART), "-n", NS, "--kube-version", kubernetes, values=values or {})
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def only(objects: Iterable[Object], kind: str) -> Object:
    (found,) = of_kind(objects, kind)
    return found


def pod_spec(objects: Iterable[Object]) -> Object:
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


# --- what it renders ---


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["nothing set", "everything set"])
def test_lint_finds_nothing(values: Values) -> None:
    done = helm("lint", "--strict", str(CHART), "--kube-version", KUBERNETES, values=values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_values_it_brings_the_operator_its_rights_the_crd_and_nothing_else() -> None:
    assert sorted((one["kind"], one["metadata"]["name"]) for one in render()) == [
        ("ClusterRole", NAME),
        ("ClusterRole", f"{NAME}-edit"),
        ("ClusterRole", f"{NAME}-view"),
        ("ClusterRoleBinding", NAME),
        ("CustomResourceDefinition", CRD_NAME),
        ("Deployment", NAME),
        ("Pod", f"{NAME}-test"),
        ("Service", f"{NAME}-metrics"),
        ("ServiceAccount", NAME),
    ]


def test_a_release_of_another_name_has_the_name_of_the_chart_in_all_it_makes() -> None:
    names = {one["metadata"]["name"] for one in render(name="kff")} - {CRD_NAME}
    assert all(one.startswith(f"kff-{NAME}") for one in names)


def test_there_is_one_writer_and_it_may_finish_what_it_began() -> None:
    deployment = only(render(), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 60


def test_the_operator_is_told_all_it_needs() -> None:
    (container,) = pod_spec(render(EVERYTHING))["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment == {
        "KAFKAFEATURES_NAMESPACES": "kafka,payments",
        "KAFKAFEATURES_LISTEN": ":8080",
        "KAFKAFEATURES_LOG_FORMAT": "json",
        "KAFKAFEATURES_ALLOW_ADDRESS": "10.0.0.0/8,fd00::/8",
        "KAFKAFEATURES_DENY_ADDRESS": "10.1.0.0/16",
        "POD_NAME": None,
        "POD_IP": None,
        "TZ": "Europe/Oslo",
    }
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"] if "valueFrom" in one}
    assert fields == {"POD_NAME": "metadata.name", "POD_IP": "status.podIPs"}
    assert (container["image"], container["imagePullPolicy"]) == ("elsewhere/kff:9.9", "Always")


def test_probes_and_service_lead_to_the_port_it_listens_on() -> None:
    objects = render()
    (container,) = pod_spec(objects)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    service = only(objects, "Service")
    assert service["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": "http"}]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert not service["spec"]["selector"].items() <= only(objects, "Pod")["metadata"]["labels"].items()


def test_the_pod_goes_where_it_is_wanted_and_so_does_its_test() -> None:
    objects = render(EVERYTHING)
    for spec in (pod_spec(objects), only(objects, "Pod")["spec"]):
        for field in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
            assert spec[field] == EVERYTHING[field]


def test_helm_test_asks_the_service_with_the_same_image() -> None:
    objects = render(EVERYTHING)
    pod, (operator,) = only(objects, "Pod"), pod_spec(objects)["containers"]
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["image"] == operator["image"]
    assert f"http://{only(objects, 'Service')['metadata']['name']}:8080/readyz" in container["command"][2]
    compile(container["command"][2], "the test", "exec")


# --- the CRD ---


def test_the_crd_is_the_one_of_the_repository_and_stays_when_the_release_goes() -> None:
    found = only(render(), "CustomResourceDefinition")
    assert found["spec"] == CRD["spec"]
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crd_can_be_let_go_or_left_out() -> None:
    assert "annotations" not in only(render({"crds": {"keep": False}}), "CustomResourceDefinition")["metadata"]
    assert not of_kind(render({"crds": {"enabled": False}}), "CustomResourceDefinition")


# --- rights ---

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


def documented() -> set[Right]:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    rows = re.findall(r"^\| (core|URLs|`[\w.]+`) \| (`[^|]+`) \| ([^|]+) \| .+ \|$", page, re.MULTILINE)
    return {
        (group.strip("`") if "`" in group else "", resource, verb)
        for group, resources, verbs in rows
        for resource in re.findall(r"`([\w./]+)`", resources)
        for verb in re.findall(r"`(\w+)`", verbs)
    }


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["kafka"]}], ids=str)
def test_the_operator_has_the_rights_that_are_documented_and_no_other(values: Values) -> None:
    objects = render({**values, "rbac": {"aggregateClusterRoles": False}})
    rules = [rule for one in objects if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]
    assert rights(rules) == documented() == rights(RIGHTS)
    assert {tuple(rule) for rule in rules} == {("apiGroups", "resources", "verbs"), ("nonResourceURLs", "verbs")}


def test_with_namespaces_it_has_rights_in_these_alone_and_may_read_which_kinds_there_are() -> None:
    objects = render({"watchNamespaces": ["kafka", "payments"], "rbac": {"aggregateClusterRoles": False}})
    (discovery,) = only(objects, "ClusterRole")["rules"]
    assert set(discovery) == {"nonResourceURLs", "verbs"}
    for kind in ("Role", "RoleBinding"):
        assert [one["metadata"]["namespace"] for one in of_kind(objects, kind)] == ["kafka", "payments"]


def test_who_may_make_no_cluster_role_can_install_it_for_namespaces() -> None:
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


def test_rights_can_be_left_to_somebody_else() -> None:
    objects = render({"rbac": {"create": False, "aggregateClusterRoles": False}, "serviceAccount": {"create": False}})
    assert {one["kind"] for one in objects} == {"CustomResourceDefinition", "Deployment", "Pod", "Service"}
    assert pod_spec(objects)["serviceAccountName"] == "default"


def test_the_token_is_for_the_operator_alone() -> None:
    objects = render()
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert only(objects, "Pod")["spec"]["automountServiceAccountToken"] is False
    assert pod_spec(objects)["automountServiceAccountToken"] is True


# --- monitoring ---

MONITORING = {"ServiceMonitor", "PrometheusRule", "ConfigMap"}


def test_monitoring_is_off_unless_asked_for() -> None:
    assert not MONITORING & {one["kind"] for one in render()}


def test_the_service_monitor_finds_the_service_and_keeps_the_labels_of_series() -> None:
    objects = render(EVERYTHING)
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": "http", "interval": "30s", "honorLabels": True}]


def test_alerts_are_of_this_release_and_lead_to_runbooks_that_are_there() -> None:
    rules = only(render(EVERYTHING), "PrometheusRule")["spec"]["groups"][0]["rules"]
    down = next(one for one in rules if one["alert"] == "KafkaFeaturesOperatorDown")
    assert down["expr"] == f'absent(up{{job="{NAME}-metrics",namespace="{NS}"}} == 1)'
    for one in rules:
        base, page = one["annotations"]["runbook_url"].rsplit("/", 1)
        assert base == "https://runbooks.example/kafka"
        assert (ROOT / "docs" / "runbooks" / page).is_file()
        assert "$labels" not in one["expr"]
        assert "@" not in one["expr"]


def test_without_a_place_for_runbooks_alerts_have_no_links() -> None:
    rules = only(render({"monitoring": {"prometheusRule": {"enabled": True}}}), "PrometheusRule")
    assert all("runbook_url" not in one["annotations"] for one in rules["spec"]["groups"][0]["rules"])


def test_the_dashboard_arrives_as_it_is() -> None:
    config_map = only(render(EVERYTHING), "ConfigMap")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    assert json.loads(text) == json.loads((CHART / "files" / "dashboard.json").read_text())


# --- what it refuses ---


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"replicaCount": 1},
        {"watchNamespace": "kafka"},
        {"watchNamespaces": "kafka"},
        {"watchNamespaces": ["kafka-*"]},
        {"watchNamespaces": ["kafka,payments"]},
        {"watchNamespaces": ["kafka", "kafka"]},
        {"image": {"name": "kff"}},
        {"image": {"pullPolicy": "always"}},
        {"image": {"tag": 4.1}},
        {"imagePullSecrets": ["registry"]},
        {"crds": {"keep": "yes"}},
        {"crds": {"create": True}},
        {"rbac": {"scope": "Cluster"}},
        {"logFormat": "logfmt"},
        {"addresses": {"allow": ["kafka.example"]}},
        {"addresses": {"allow": "10.0.0.0/8"}},
        {"extraEnv": [{"name": "KAFKAFEATURES_NAMESPACES", "value": ""}]},
        {"extraEnv": [{"name": "POD_IP", "value": "10.0.0.1"}]},
        {"extraEnv": [{"value": "nameless"}]},
        {"resources": {"request": {}}},
        {"monitoring": {"prometheusRule": {"runbooks": "https://runbooks.example/"}}},
        {"monitoring": {"podMonitor": {"enabled": True}}},
        {"fullnameOverride": "Kafka_Features"},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(values: Values) -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_kubernetes_before_1_29_is_refused() -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", "1.28.15", values={})
    assert done.returncode != 0
    assert "requires kubeVersion: >=1.29-0" in done.stderr
    assert render(kubernetes="1.29.0")


# --- on a real API server; no pod ever runs there ---


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of its own: a CRD belongs to whoever brought it first."""
    with ControlPlane(tmp_path_factory.mktemp("chart")) as running:
        for name in (NS, "kafka"):
            running.kubectl("create", "namespace", name)
        running.kubectl("label", "namespace", NS, "pod-security.kubernetes.io/enforce=restricted")
        yield running


@pytest.fixture
def installed(plane: ControlPlane) -> Iterator[str]:
    """What helm says at the end of an installation."""
    yield plane.helm("install", NAME, str(CHART), "-n", NS)
    plane.helm("uninstall", NAME, "-n", NS, "--ignore-not-found", "--wait")
    plane.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")


def document(name: str) -> Object:
    spec = {"mode": "Observe", "cluster": {"bootstrapServers": "kafka:9092"}}
    metadata = {"name": name, "namespace": "kafka"}
    return {"apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "metadata": metadata, "spec": spec}


def can(plane: ControlPlane, who: str, verb: str, resource: str, group: str = "kafkafeatures.dev") -> bool:
    """What the API server itself says. `resource` may have a part behind a slash, as in a role, or be a URL."""
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
def test_the_account_may_do_what_is_documented_and_nothing_more(plane: ControlPlane) -> None:
    account = f"system:serviceaccount:{NS}:{NAME}"
    for group, resource, verb in documented():
        assert can(plane, account, verb, resource, group), (resource, verb)
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
        assert not can(plane, account, verb, resource, group), (resource, verb)


@pytest.fixture
def hardened(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Not every account may read which kinds there are."""
    default = plane.get("clusterrolebinding", "system:discovery")
    plane.kubectl("delete", "clusterrolebinding", "system:discovery")
    yield plane
    plane.apply({**default, "metadata": {"name": "system:discovery"}})


def of_kopf(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.agent.startswith("kopf/")]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("namespaces", [(), ("kafka",)], ids=["all namespaces", "one namespace"])
def test_with_these_rights_alone_it_watches(
    hardened: ControlPlane, tmp_path: Path, namespaces: tuple[str, ...]
) -> None:
    watched = f"watchNamespaces={json.dumps(namespaces)}"
    hardened.helm("upgrade", NAME, str(CHART), "-n", NS, "--set-json", watched)
    mark = hardened.audit.mark()
    with Operator(hardened, tmp_path, *namespaces):
        hardened.audit.wait_for(of_kopf, mark, user=USER, verb="list")  # then it watches
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
def test_who_may_view_or_edit_a_namespace_may_view_or_edit_its_resources_but_no_status(plane: ControlPlane) -> None:
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
