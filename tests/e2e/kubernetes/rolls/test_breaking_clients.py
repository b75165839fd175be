"""A roll to a release that refuses clients in use: brokers of Kafka 3.9 in a namespace of their own, on the node of all
rolls. A real Prometheus scrapes them; it also has the last minutes of the processes that ran before theirs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkafeatures.api.names import RECONCILE
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.prometheus.api import PrometheusApi, PrometheusFailed
from kafkafeatures.prometheus.evidence import read_evidence
from kafkafeatures.prometheus.http import HttpTransport, parse_url
from tests.e2e.clients.old_clients import CLIENTS, HOME, SECONDS
from tests.e2e.clients.prometheus import Labels, backfill, exporter, line, running, scrape
from tests.e2e.kubernetes.resources import Resources, allow_restarts, delete_all
from tests.e2e.kubernetes.rolls.rolling import NAME, STATEFUL_SETS, TOPIC
from tests.e2e.rig.kubernetes.images import kafka_image, kafka_name
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, OLD

NAMESPACE, JOB, PORT = "gated", "kafka", 9404
IDS = {"controllers": (9,), "brokers": (4, 2, 7)}
MINUTE, DAY = 60_000, 24 * 60 * 60_000
"""In ms."""
MATTERS = client_targets().matters("4.1")
CLIENT, OTHER_CLIENT = "java-0.10.2.2", "java-0.9.0.1"
VERSIONS = {CLIENT: {("Fetch", 3), ("Produce", 2)}, OTHER_CLIENT: {("Fetch", 1), ("ListOffsets", 0), ("Produce", 1)}}
"""API versions that they use, and that Kafka 4.1 lacks."""
REQUESTS, STARTS = "kafka_network_requestmetrics_requests_total", "java_lang_runtime_starttime"


class GatedRoll(Resources):
    """A document that rolls brokers only if no client breaks, by the evidence of the Prometheus at `url`."""

    def __init__(self, racks: Racks, url: str) -> None:
        super().__init__(racks.plane, namespace=racks.namespace)
        self.racks, self._url, self._audit = racks, url, racks.plane.audit.mark()

    def consents_to(self, *consents: str) -> None:
        """`kubectl apply` of the document with these consents."""
        self.apply(
            NAME,
            cluster={
                "bootstrapServers": self.racks.addresses("brokers"),
                "bootstrapControllers": self.racks.addresses("controllers"),
                "requestTimeout": "5s",
            },
            workload={"driver": "StatefulSet", "statefulSet": {"brokers": ["brokers"]}},
            rollout={"stableFor": "3s", "nodeTimeout": "180s"},
            clientEvidence={"target": "4.1", "windowDays": 1, "policy": "Gate", "prometheus": {"url": self._url}},
            consents=list(consents),
        )

    def until_held(self, *clients: str) -> str:
        """The message of the condition Stalled, once it asks for the consents to break these clients and no others. The
        operator is asked to look again: by itself it does that half a minute after evidence began to be read.
        """
        remedy = f"add {', '.join(consents_for(*clients))} to consents"

        def is_held() -> bool:
            self.annotate(NAME, f"{RECONCILE}={time_ns()}")
            return str(self.condition(NAME, "Stalled").get("message", "")).endswith(remedy)

        wait_until(f"the roll is held; {remedy}", is_held, step=1)
        condition = self.condition(NAME, "Stalled")
        assert condition["reason"] == "ConsentRequired"
        return str(condition["message"])

    def blockers(self) -> set[tuple[str, int]]:
        """API versions in what the command of docs/how-to/find-old-clients.md prints."""
        text = self.plane.kubectl("get", "kff", NAME, "-n", self.namespace, "-o", "jsonpath={.status.clients}")
        return {(blocker["api"], blocker["version"]) for blocker in json.loads(text)["blockers"]}

    def pods(self, user: str, subresource: str) -> Counter[str]:
        """How often each pod was made by this user, or evicted, by the audit log."""
        wanted = {"verb": "create", "resource": "pods", "subresource": subresource, "user": user, "code": 201}
        rows = self.plane.audit.rows(self._audit, **wanted, namespace=self.namespace)
        return Counter(row.name for row in rows)

    def works(self, client: str) -> bool:
        """Run a client, and tell whether it produced and consumed."""
        program = CLIENTS[client]()
        program = replace(program, command=tuple(self.racks.with_names(*program.command)))
        text, _ = program.start(self.racks.addresses("brokers"), TOPIC).communicate(timeout=4 * SECONDS)
        return {"produced", "consumed"} <= set(text.splitlines())

    def uses(self, client: str) -> None:
        """Run a client until the evidence in Prometheus shows its requests, and is complete. What the operator reads
        before counts for ten minutes.
        """
        assert self.works(client)
        wait_until("there is evidence of its requests", lambda: VERSIONS[client] <= self._evident(), step=0.5)

    def _evident(self) -> set[tuple[str, int]]:
        """API versions in the evidence about all brokers; none while some of it cannot be used."""
        now = time_ns() // 1_000_000
        try:
            with closing(HttpTransport(parse_url(self._url), {}, None)) as send:
                evidence = read_evidence(PrometheusApi(send), "", None, EvidenceWindow(now - DAY, now), MATTERS)
        except PrometheusFailed:  # nothing was scraped yet
            return set()
        if evidence.problems or {scrape.broker for scrape in evidence.scrapes} != set(IDS["brokers"]):
            return set()
        return {key for scrape in evidence.scrapes for key, count in scrape.counters.items() if count}


def consents_for(*clients: str) -> list[str]:
    """A consent for each version that these clients use."""
    return sorted(f"client-breaks:{api}:{version}" for client in clients for api, version in VERSIONS[client])


@pytest.fixture
def kafka(racks: Racks, tmp_path: Path) -> Iterator[Racks]:
    """A controller and three brokers of Kafka 3.9 with the JMX exporter, and a topic. Each answered a client."""
    nodes = Racks(racks.node, NAMESPACE, ids=IDS)
    flag = exporter(tmp_path, PORT)

    def fit(stateful_set: dict[str, Any]) -> None:
        """Request little: two processors are nearly all requested by the nodes of the other Kafka."""
        (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"]["cpu"] = "20m"

    def export(stateful_set: dict[str, Any]) -> None:
        """Start the exporter in each broker, from folders of this machine."""
        fit(stateful_set)
        pod = stateful_set["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        next(each for each in container["env"] if each["name"] == "JDK_JAVA_OPTIONS")["value"] += f" {flag}"
        for name, path in (("exporter", str(HOME)), ("rules", str(tmp_path))):
            container["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
            pod["volumes"].append({"name": name, "hostPath": {"path": path}})

    nodes.changed = {"controllers": fit, "brokers": export}
    nodes.apply(OLD, "3.9")
    nodes.wait_ready()
    nodes.create_topic(TOPIC, 1)
    where = ("--bootstrap-server", nodes.addresses("brokers"))
    nodes.tool("org.apache.kafka.tools.BrokerApiVersionsCommand", *where)
    allow_restarts(racks.plane, NAMESPACE)
    yield nodes
    nodes.remove()


@pytest.fixture
def gated(kafka: Racks, operator: Operator, tmp_path: Path) -> Iterator[GatedRoll]:
    """No document yet."""
    targets = {
        str(kafka.pods()[pod]["status"]["podIP"]): {"broker_id": str(kafka.id_of(pod))}
        for pod in kafka.pods_of("brokers")
    }
    backfill(tmp_path / "data", (text for host, labels in targets.items() for text in process_before(host, labels)))
    configs = [{"targets": [f"{host}:{PORT}"], "labels": labels} for host, labels in targets.items()]
    with running(tmp_path / "data", [{"job_name": JOB, "static_configs": configs}]) as url:
        yield GatedRoll(kafka, url)
        delete_all(kafka.plane, NAMESPACE)


def process_before(host: str, labels: Labels) -> Iterator[str]:
    """Scrapes of a process that ran for two days until that of the broker began, in lines of OpenMetrics: what its
    exporter answers now, with another start and counters that grow up to these.
    """
    families = text_string_to_metric_families(scrape(PORT, host).decode())
    samples = [sample for family in families for sample in family.samples]
    (end,) = (round(sample.value) for sample in samples if sample.name == STARTS)
    target = {"job": JOB, "instance": f"{host}:{PORT}", **labels}
    values = {STARTS: end - 2 * DAY, "process_start_time_seconds": (end - 2 * DAY) / 1000}
    for number, time in enumerate(range(end - 9 * MINUTE, end, MINUTE)):
        for sample in samples:
            value = sample.value + number if sample.name == REQUESTS else values.get(sample.name, sample.value)
            yield line(sample.name, {**target, **sample.labels}, value, time)
        yield line("scrape_samples_scraped", target, len(samples), time)


def test_a_roll_is_held_until_each_api_version_in_use_that_the_release_lacks_has_a_consent(
    gated: GatedRoll, kafka: Racks, operator: Operator
) -> None:
    """Consents for the versions of one client do not cover those of another one, which appears before the roll begins.
    After the roll the first client does not work any more, as the message said.
    """
    pods = Counter(kafka.pods_of("brokers"))
    gated.uses(CLIENT)
    kafka.node.load_image(kafka_image(MIDDLE))
    kafka.apply_image(kafka_name(MIDDLE))
    gated.consents_to()
    message = gated.until_held(CLIENT)
    assert message.startswith(
        "no node is restarted: clients use API versions that Kafka 4.1 lacks: Fetch v3, Produce v2;"
    )
    assert gated.condition(NAME, "ClientsCompatible")["reason"] == "BlockingClients"
    assert gated.blockers() == VERSIONS[CLIENT]

    operator.kill()
    gated.uses(OTHER_CLIENT)
    gated.consents_to(*consents_for(CLIENT))
    operator.start()
    gated.until_held(OTHER_CLIENT)
    assert gated.blockers() == VERSIONS[CLIENT] | VERSIONS[OTHER_CLIENT]
    assert gated.pods(USER, "eviction") == Counter()

    gated.consents_to(*consents_for(CLIENT, OTHER_CLIENT))
    gated.wait(NAME, "NodesRolled", 280)  # three brokers, one after the other
    assert gated.pods(USER, "eviction") == gated.pods(STATEFUL_SETS, "") == pods
    assert sorted(gated.status(NAME)["spentConsents"]) == consents_for(CLIENT, OTHER_CLIENT)
    assert not gated.works(CLIENT)
    logs = [kafka.plane.kubectl("logs", pod, "-n", NAMESPACE) for pod in pods]
    assert any("(Produce) and unsupported version 2" in log for log in logs), logs
