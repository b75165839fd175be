"""The operator as users have it: image, `helm install`, a pod with the chart's rights, Kafka in StatefulSets."""

from __future__ import annotations

import base64
import functools
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kafkafeatures.api.names import API_VERSION, KIND
from tests.amounts import SOAK
from tests.e2e.kafka.wire import count_level_records
from tests.e2e.kubernetes.chart.rendering import CHART, previous_chart
from tests.e2e.kubernetes.resources import ROOT, Resources, away, delete_all
from tests.e2e.rig.kubernetes.any_node import AnyNode
from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.images import OPERATOR, PREFIX, operator_image
from tests.e2e.rig.kubernetes.kafka import Kafka
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until
from tests.examples import BLOCK, COMMAND, on_kubernetes
from tests.kafkafeatures.kafka.wire.test_addresses import SPELLINGS

SCENE = "installed"
RELEASE, NS = "kafka-features-operator", "kafka-features"
ACCOUNT = f"system:serviceaccount:{NS}:{RELEASE}"
INSTANTS = 20 if SOAK else 4
"""Number of kills at random moments."""
REFUSED = "the operator's settings do not allow this address"
JUDGED = {("Reachable", "False"), ("Stalled", "True")}
"""Conditions (type, status) that show that the operator has judged an address."""


def readme() -> tuple[list[str], list[str]]:
    """The commands of README's part about Kubernetes, by block: to install and inspect, and to raise and approve."""
    part = (ROOT / "README.md").read_text().partition("\n## On Kubernetes\n")[2].partition("\n## ")[0]
    blocks = [block.partition("```")[0] for block in part.split("```sh\n")[1:]]
    first, second = ([line for line in block.replace("\\\n", " ").splitlines() if line] for block in blocks)
    return first, second


class Person:
    """A person who types the README's commands into a shell, in a folder with the charts."""

    def __init__(self, node: AnyNode, folder: Path) -> None:
        self.folder = folder
        (folder / "charts").symlink_to(ROOT / "charts")
        path = f"{binary('kubectl').parent}:{binary('helm').parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
        self.environment = {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(node.control_plane.kubeconfig)}
        self.environment["COLUMNS"] = "100"  # as wide as README's examples

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace("REGISTRY/", f"{PREFIX}/")
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        print(f"$ {command}\n{done.stdout}{done.stderr}", end="")
        return done


@pytest.fixture(scope="module")
def person(node: AnyNode, tmp_path_factory: pytest.TempPathFactory) -> Person:
    build(["helm"])
    return Person(node, tmp_path_factory.mktemp("person"))


@pytest.fixture(scope="module")
def installed(node: AnyNode, person: Person) -> Iterator[AnyNode]:
    node.load_image(operator_image())
    node.control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kafka"}})
    done = person.types(readme()[0][0])
    assert done.returncode == 0, done.stderr
    yield node
    node.control_plane.helm("uninstall", RELEASE, "-n", NS, "--ignore-not-found", "--wait")


@pytest.fixture
def kafka(installed: AnyNode, kafka_on_node: Kafka) -> Kafka:
    assert installed is kafka_on_node.node
    return kafka_on_node


@pytest.fixture
def resources(kafka: Kafka) -> Iterator[Resources]:
    plane = cast("ControlPlane", kafka.node.control_plane)  # kind's has all of it that is used here
    yield Resources(plane, namespace=kafka.namespace)
    delete_all(kafka.node.control_plane)


def document(kafka: Kafka, name: str, levels: dict[str, int], **spec: Any) -> dict[str, Any]:
    features = {"levels": [{"name": feature, "level": level} for feature, level in levels.items()]}
    body = {"cluster": {"bootstrapServers": kafka.bootstrap_servers}, "features": features, **spec}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": kafka.namespace},
        "spec": body,
    }


def level_records(kafka: Kafka) -> int:
    """How often a level was written since the cluster was formatted, from the files of its controller."""
    files = "/data/kafka-controller-0/__cluster_metadata-0/*.log"
    command = ("sh", "-c", f"cat {files} | base64 -w0")
    exec_ = ("exec", "kafka-controller-0", "-n", kafka.namespace, "--", *command)
    return count_level_records(base64.b64decode(kafka.node.control_plane.kubectl(*exec_)))


def pods(kafka: Kafka) -> dict[str, tuple[str, int]]:
    """Uid and restarts of every Kafka pod."""
    items = kafka.node.control_plane.get("pods", "-n", kafka.namespace)["items"]
    return {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["status"]["containerStatuses"][0]["restartCount"])
        for one in items
    }


def operator_pod(node: AnyNode) -> dict[str, Any]:
    """The pod of the operator that is not being deleted; empty while there is none."""
    pods_ = node.control_plane.get("pods", "-n", NS, "-l", "app.kubernetes.io/name=kafka-features-operator")["items"]
    staying = [pod for pod in pods_ if "deletionTimestamp" not in pod["metadata"]]
    assert len(staying) <= 1, staying
    return staying[0] if staying else {}


def operator_container(node: AnyNode) -> str:
    """The id of the operator's container, once its pod is Ready."""
    wait_until("the operator's pod is Ready", lambda: is_true("Ready", operator_pod(node)), step=0.5)
    return str(operator_pod(node)["status"]["containerStatuses"][0]["containerID"])


def test_helm_test_succeeds(installed: AnyNode) -> None:
    assert "Phase:          Succeeded" in installed.control_plane.helm("test", RELEASE, "-n", NS)


def test_kubelet_restarts_an_operator_that_does_not_answer(installed: AnyNode, request: pytest.FixtureRequest) -> None:
    """A frozen process does not answer /healthz, like one whose event loop is blocked."""
    frozen = operator_container(installed)
    installed.kill_container(frozen, "SIGSTOP")
    request.getfixturevalue("kafka_on_node")  # of the tests that follow: kubelet needs a minute

    def anew() -> bool:
        (container,) = operator_pod(installed)["status"]["containerStatuses"]
        return bool(container["ready"]) and container["containerID"] != frozen

    wait_until("another one is ready", anew, 240, step=1.0)
    assert operator_pod(installed)["status"]["containerStatuses"][0]["restartCount"] == 1


def test_the_commands_of_the_readme_work_as_printed_and_no_kafka_pod_restarts(
    kafka: Kafka, resources: Resources, person: Person
) -> None:
    before, (look, upgrade) = pods(kafka), readme()
    for command in look[1:]:
        done = person.types(command.replace("HOST:PORT", kafka.bootstrap_servers))
        assert done.returncode == 0, done.stderr
    assert resources.condition("orders", "Ready")["reason"] == "Observed"

    document_ = yaml.safe_load((person.folder / "orders.yaml").read_text())
    document_["spec"] |= {"mode": "Apply", "features": {"releaseVersion": "4.1"}}
    (person.folder / "orders.yaml").write_text(yaml.safe_dump(document_))
    assert person.types(upgrade[0]).returncode == 0
    resources.until("orders", "ApprovalRequired", "PlanPending")
    (shown,) = (found["text"] for found in BLOCK.finditer((ROOT / "README.md").read_text()) if found["scene"] == SCENE)
    assert [command for command, _ in COMMAND.findall(shown)] == upgrade[1:]
    on_kubernetes(SCENE, resources.status("orders"), person.folder, **person.environment)
    assert resources.status("orders")["metadataVersion"] == "4.1-IV1"
    assert pods(kafka) == before

    report = yaml.safe_load(person.types(f"kafkafeatures report orders -n {kafka.namespace}").stdout)
    assert report["notRead"] == []
    assert report["operator"]["deployment"]["readyReplicas"] == 1
    assert report["operator"]["pod"]["phase"] == "Running"
    assert all("orders" in line for line in report["operator"]["log"])
    assert any("metadata.version" in line for line in report["operator"]["log"])


def test_a_pod_killed_at_random_instants_changes_no_level_twice(kafka: Kafka, resources: Resources) -> None:
    """Three levels are raised, then lowered, then raised, and so on; each time the pod is killed at some moment."""
    chance, node = random.Random(11), kafka.node
    top = {"group.version": 1, "transaction.version": 2, "share.version": 1}
    consents = [f"{feature}:{level}->0" for feature, level in top.items()]
    node.control_plane.apply(document(kafka, "before", {"metadata.version": 27, **top}))
    resources.wait("before", "Ready")
    resources.delete("before")
    done: list[int] = []
    # On a slow machine every kill may come when all three levels are changed; then there are some more kills.
    while len(done) < INSTANTS or (min(done) == len(top) and len(done) < 3 * INSTANTS):
        number = len(done)
        name = f"killed-{number}"
        levels, as_they_are = (top, dict.fromkeys(top, 0)) if number % 2 else (dict.fromkeys(top, 0), top)
        # First a document without changes: a consent in the first document of a resource would need an approval too.
        node.control_plane.apply(document(kafka, name, as_they_are))
        resources.wait(name, "Ready")
        container, before = operator_container(node), level_records(kafka)
        node.control_plane.apply(document(kafka, name, levels, consents=consents))
        away(chance.uniform(0.0, 0.2))
        node.kill_container(container)
        done.append(level_records(kafka) - before)
        # The pod is deleted as well; else kubelet would wait longer and longer before it restarts the container.
        node.control_plane.kubectl("delete", "pod", "-n", NS, "--all", "--force", "--grace-period=0", "--wait=false")
        resources.wait(name, "Ready")
        assert level_records(kafka) == before + len(top), name
        resources.delete(name)
    assert min(done) < len(top), "no kill came before the end"


def test_the_operator_in_a_pod_connects_to_no_spelling_of_a_forbidden_address(
    kafka: Kafka, resources: Resources
) -> None:
    """Each is refused by the settings, or is no valid address, or a name that the resolver does not know."""
    plane = kafka.node.control_plane
    servers = [f"[{host}]:9092" if ":" in host else f"{host}:9092" for host in SPELLINGS]
    plane.apply(
        *(document(kafka, f"spelling-{n}", {}, cluster={"bootstrapServers": one}) for n, one in enumerate(servers))
    )

    def messages() -> list[str]:
        items = plane.get("kff", "-n", kafka.namespace)["items"]
        conditions = (one.get("status", {}).get("conditions", ()) for one in items)
        judged = (c for many in conditions for c in many if (c["type"], c["status"]) in JUDGED)
        # A pod that was replaced by force just before may still write its status, which is not a judgement of the new
        # pod.
        return [c["message"] for c in judged if c["reason"] != "ConflictDetected"]

    wait_until("each is judged", lambda: len(messages()) == len(SPELLINGS))
    ends = Counter(next(end for end in (REFUSED, "not known", "invalid ", "") if end in one) for one in messages())
    assert ends[""] == 0, messages()  # no other outcome, such as a connection
    assert ends[REFUSED] >= 35, ends  # most spellings; how many names are unknown depends on the resolver


def test_the_image_runs_as_any_user(installed: AnyNode) -> None:
    """Some clusters give each namespace user ids of its own, and refuse a user that an image or a chart sets."""
    plane, name = installed.control_plane, "anybody"
    security = {"runAsUser": 1_000_680_000, "runAsGroup": 0, "readOnlyRootFilesystem": True}
    container = {"name": name, "image": OPERATOR, "imagePullPolicy": "Never", "args": ["version"]}
    spec = {"containers": [{**container, "securityContext": security}], "restartPolicy": "Never"}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS}, "spec": spec})
    plane.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "-n", NS, "--timeout=180s")
    plane.kubectl("delete", "pod", name, "-n", NS)


def test_the_operator_uses_exactly_the_rights_that_the_chart_grants(kafka: Kafka, resources: Resources) -> None:
    """By the audit log of the API server. The earlier tests of this module have used the other rights; the document
    here adds the readings of a ConfigMap and of a Secret, which does not exist.
    """
    plane = kafka.node.control_plane
    tls = {"caConfigMapRef": {"name": "ca"}}
    sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}}
    plane.kubectl("create", "configmap", "ca", "-n", kafka.namespace, "--from-literal=ca.crt=none")
    cluster = {"bootstrapServers": kafka.bootstrap_servers, "tls": tls, "sasl": sasl}
    plane.apply(document(kafka, "reads", {}) | {"spec": {"cluster": cluster}})
    resources.until("reads", "Reachable", "CredentialsInvalid")
    role = plane.get("role", RELEASE, "-n", kafka.namespace)
    discovery = plane.get("clusterrole", f"{RELEASE}-discovery-{NS}")
    granted = {
        (verb, *resource.partition("/")[::2])
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    } | {(verb, url, "") for rule in discovery["rules"] for url in rule["nonResourceURLs"] for verb in rule["verbs"]}
    rows = plane.audit.rows(user=ACCOUNT)
    used = {(row.verb, row.resource or row.uri.partition("?")[0], row.subresource) for row in rows}
    assert used == granted
    assert not [row for row in rows if row.code == 403]


def test_rollback_to_the_previous_chart_and_uninstallation_leave_kafka_and_resources_unchanged(
    kafka: Kafka, resources: Resources, tmp_path: Path
) -> None:
    """Both charts have the present image. With the CRD of the previous chart it reports that the schema is outdated.

    Here the previous chart is installed and rolled back, with a running pod each time. Further upgrades, without pods,
    are in tests/e2e/kubernetes/chart.
    """
    node = kafka.node
    node.control_plane.apply(document(kafka, "kept", {}))
    resources.wait("kept", "Ready")
    uid, before = resources.get("kept")["metadata"]["uid"], (pods(kafka), level_records(kafka))
    previous = previous_chart(tmp_path)

    def runs(chart: Path) -> bool:
        pod, metadata = operator_pod(node), yaml.safe_load((chart / "Chart.yaml").read_text())
        of_chart = f"{metadata['name']}-{metadata['version']}"
        return is_true("Ready", pod) and pod["metadata"]["labels"]["helm.sh/chart"] == of_chart

    for command, chart, reason in (
        (("upgrade", RELEASE, str(previous), "--reset-then-reuse-values"), previous, "SchemaOutdated"),
        (("rollback", RELEASE), CHART, "InSync"),
    ):
        node.control_plane.helm(*command, "-n", NS)
        wait_until("the pod of this chart is Ready", functools.partial(runs, chart), step=0.5)
        resources.until("kept", "Ready", reason)
    node.control_plane.helm("uninstall", RELEASE, "-n", NS, "--wait")
    wait_until("the pod is gone", lambda: not operator_pod(node))
    assert resources.get("kept")["metadata"]["uid"] == uid
    assert (pods(kafka), level_records(kafka)) == before
