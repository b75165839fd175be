"""One resource and the accounts of those who ask about it. No operator runs here: tests write what it would say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.kubernetes.resources import Resources

NS = "people"
USER = f"system:serviceaccount:{NS}:person"
CLUSTER = {"cluster": {"bootstrapServers": "kafka-1.example:9092"}}
READ = {"apiGroups": ["kafkafeatures.dev"], "resources": ["kafkafeatures"], "verbs": ["get"]}
WRITE = {**READ, "verbs": ["get", "list", "patch"]}
EVENTS = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["list"]}
STATEFUL_SETS = {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get"]}
RESTART = {**STATEFUL_SETS, "verbs": ["patch"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
RESTART_ONE = {**PODS, "verbs": ["patch"]}
ACCOUNTS = {
    "person": [WRITE, EVENTS, STATEFUL_SETS, RESTART, PODS, RESTART_ONE],
    "reader": [READ],
    "looker": [READ, STATEFUL_SETS],
    "viewer": [READ, STATEFUL_SETS, PODS],
    "nobody": [],
}


class Orders(Resources):
    """One resource, with what an operator would write about it."""

    name = "orders"

    def write(self, status: Mapping[str, Any]) -> None:
        """The whole status, as the operator does."""
        self.plane.kubectl(
            "replace", "--subresource=status", "-f", "-", input=json.dumps({**self.get(self.name), "status": status})
        )

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.get(self.name)["metadata"].get("annotations", {})
        return found
