"""Names and labels of metrics are for alerts: what is documented, exposed, alerted on and drawn must be the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from docs.make.alerts import ALERTS, OF_REASON, STALLED
from kafkafeatures.api.client_status import ClientsStatus
from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import (
    BrokersByMode,
    EqualityStatus,
    FeatureStatus,
    MigrationStatus,
    RolloutStatus,
    Status,
    StatusCondition,
)
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
DASHBOARD = json.loads((ROOT / "charts" / "kafka-features-operator" / "files" / "dashboard.json").read_text())
SINCE = Stamp("2026-01-02T03:04:05Z")
STATUS = Status(
    conditions=(
        StatusCondition(
            type="ApprovalRequired", status="True", last_transition_time=SINCE, reason="PlanPending", message="m"
        ),
        StatusCondition(type="Ready", status="False", last_transition_time=SINCE, reason="Drifted", message="m"),
        StatusCondition(
            type="ClientsCompatible", status="False", last_transition_time=SINCE, reason="BlockingClients", message="m"
        ),
    ),
    features=(FeatureStatus(name="metadata.version", finalized=21, desired=27, supported_min=7, supported_max=27),),
    rollout=RolloutStatus(id="r", total=3, done=1),
    clients=ClientsStatus(target="4.1", verdict="Blocked", blocker_count=1),
    migration=MigrationStatus(
        phase="Migrating", brokers=BrokersByMode(), lag_records=1, equality=EqualityStatus(differences=0)
    ),
)


def exposed() -> dict[str, tuple[str, frozenset[str]]]:
    """Name to type and labels, after one reconciliation; `_created` beside counters is the client library's."""
    metrics = Metrics(environment=SYSTEM)
    metrics.follow(lambda: 0, {"": lambda: True})
    metrics.answered(200)
    metrics.notified("delivered")
    metrics.reconciled(ResourceKey("kafka", "orders"), "success", 0.1, STATUS)
    metrics.suspended(ResourceKey("kafka", "orders"), holds=True)
    recorder = metrics.of_recorder()
    recorder.recorded(ResourceKey("kafka", "orders"))
    recorder.gap(ResourceKey("kafka", "orders"))
    recorder.note_room(ResourceKey("kafka", "orders"), 1)
    metrics.sent(Address("kafka", 9092), bytes.fromhex("0000000a 0039 0001 00000007 ffff"))
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        if family.name.startswith("kafkafeatures_") and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
            found[name] = family.type, labels
    return found


EXPOSED = exposed()


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    rows = re.findall(r"^\| `(kafkafeatures_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    assert documented() == EXPOSED


def test_exactly_the_existing_alerts_are_documented() -> None:
    assert re.findall(r"^\| `(KafkaFeatures\w+)`", PAGE, re.MULTILINE) == [one.name for one in ALERTS]


QUERIES = [one.expression for one in ALERTS]
DRAWN = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ASKED = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]


@pytest.mark.parametrize("query", [*QUERIES, *DRAWN, *ASKED])
def test_a_query_selects_metrics_and_labels_that_are_exposed(query: str) -> None:
    for name, selector in re.findall(r"(kafkafeatures_\w+)(?:\{([^}]*)\})?", query):
        family = re.sub(r"_bucket$", "", name)
        assert family in EXPOSED, name
        labels = dict(re.findall(r'(\w+)=~?"([^"]*)"', selector))
        assert labels.keys() - {"job"} <= EXPOSED[family][1], selector
        if "type" in labels:
            assert labels["type"] in set(Condition)
            assert labels.get("status", "True") in ("True", "False", "Unknown")


def test_every_alert_links_to_an_existing_runbook() -> None:
    pages = {one.runbook for one in ALERTS} - {OF_REASON} | {f"{reason}.md" for reason in STALLED}
    assert STALLED
    assert [page for page in sorted(pages) if not (ROOT / "docs" / "runbooks" / page).is_file()] == []
