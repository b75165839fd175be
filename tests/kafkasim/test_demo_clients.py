"""`kafkafeatures demo --story clients`: from generated scrapes to three verdicts, by the shipped command."""

from __future__ import annotations

import re

from tests.kafkasim.test_process import demo

KEY_LINES = (
    "A SIMULATED cluster",
    "its brokers are GENERATED",
    'kafka_network_requestmetrics_requests_total{request="Produce",version="2"}',
    "$ kafkafeatures clients check --release 4.1",
    "Blocked: clients use API versions that Kafka 4.1 lacks",
    "(exit code 4)",
    "Ready: no client used an API version that Kafka 4.1 lacks",
    "(exit code 0)",
    "Unknown: the evidence does not show whether clients break",
    "no scrape of it",
    "(exit code 5)",
)


def test_the_story_of_clients_has_a_verdict_of_each_kind() -> None:
    text = " ".join(re.sub(r"^# ", "", demo("--story", "clients"), flags=re.MULTILINE).split())
    positions = [text.find(line) for line in KEY_LINES]
    assert -1 not in positions
    assert positions == sorted(positions)
