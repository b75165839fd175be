"""A CRD that is older than the operator, on a real API server: no update is sent, and the status says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.kubernetes.resources import ROOT, Resources, away, delete_all
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

CURRENT = ROOT / "crds" / "kafkafeatures.yaml"
PREVIOUS = ROOT / "tests" / "golden" / "crd" / "previous.yaml"
LEVELS = {"share.version": 1}


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    meddle(kafka, "share.version", 0)
    yield Resources(operator.plane, kafka)
    delete_all(operator.plane)
    install(operator, yaml.safe_load(CURRENT.read_text()))


def install(operator: Operator, crd: dict[str, Any]) -> None:
    """Install the CRD, and wait until it is in force."""
    plane = operator.plane
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(crd))
    wanted = fields_of(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    path = "/openapi/v3/apis/kafkafeatures.dev/v1alpha1"

    def in_force() -> bool:
        schemas = plane.read(path).get("components", {}).get("schemas", {})
        return any(fields_of(one) == wanted for name, one in schemas.items() if name.endswith(".KafkaFeatures"))

    wait_until("the CRD is in force", in_force)


def fields_of(schema: dict[str, Any]) -> set[str]:
    """The fields of the status."""
    return set(schema["properties"]["status"]["properties"])


def without(crd: dict[str, Any], *fields: str) -> dict[str, Any]:
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for field in fields:
        del status[field]
    return crd


@pytest.mark.parametrize(
    ("path", "pruned", "named_fields"),
    [
        (PREVIOUS, (), ["status.operator"]),
        (PREVIOUS, ("spentConsents", "intent", "changeCount"), ["status.spentConsents", "status.operator"]),
        (CURRENT, ("intents",), ["status.intents"]),
    ],
    ids=["of the previous release", "of one before", "of one without intents"],
)
def test_no_update_is_sent_while_the_crd_drops_fields_of_the_status(
    resources: Resources, operator: Operator, kafka: Cluster, path: Any, pruned: tuple[str, ...],
    named_fields: list[str],
) -> None:  # fmt: skip
    plane, before = operator.plane, feature_records(kafka)
    install(operator, without(yaml.safe_load(path.read_text()), *pruned))
    resources.apply("early", LEVELS)
    condition = resources.until("early", "Stalled", "SchemaOutdated")
    assert all(field in condition["message"] for field in named_fields)
    assert resources.condition("early", "Ready")["reason"] == "SchemaOutdated"
    version, mark = resources.get("early")["metadata"]["resourceVersion"], plane.audit.mark()
    away(5.0)
    assert feature_records(kafka) == before
    assert resources.get("early")["metadata"]["resourceVersion"] == version
    written = plane.audit.rows(mark, user=USER, verb="update", name="early")
    assert all("dryRun=All" in row.uri for row in written)
    install(operator, yaml.safe_load(CURRENT.read_text()))
    if pruned:  # a change has it tried again at once; the first case waits until the operator does so by itself
        resources.annotate("early", "somebody=looks")
    resources.wait("early", "Ready")
    assert feature_records(kafka) == before + len(LEVELS)
    assert resources.status("early")["operator"]["name"] == "kafka-features-operator"
