"""A resource that rolls a Kafka in racks, and what must hold of every roll, by the words of others than the operator:
the API server's audit log, Kafka's dump of its metadata log, and an observer on Kafka's own client.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.kubernetes.resources import Resources
from tests.e2e.rig.kubernetes.audit import Row
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import ACCOUNT, NAMESPACE
from tests.e2e.rig.kubernetes.operator import USER as OPERATOR
from tests.e2e.rig.kubernetes.racks import IDS, PASSWORD, USER, USER_PORT, Racks, pods_of
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until

TOPIC, NAME = "orders", "orders"
SOAK = bool(os.environ.get("SOAK"))
ROLLED = 300.0
"""Seconds for nine nodes; no promise, a machine may be busy with other things."""
ALL = (*pods_of("controllers"), *pods_of("brokers"))
MIN_IN_SYNC = 2
ROLLOUT = {"maxParallel": 2, "stableFor": "3s", "nodeTimeout": "60s"}
BROKERS_ONLY = {"driver": "StatefulSet", "statefulSet": {"brokers": ["brokers"]}}
BOTH = {"driver": "StatefulSet", "statefulSet": {"brokers": ["brokers"], "controllers": ["controllers"]}}


class Rolling(Resources):
    """See the prologue. One resource, whose document says who restarts nodes."""

    def __init__(self, racks: Racks, observer: Observer) -> None:
        super().__init__(racks.plane, namespace=racks.namespace)
        self.racks, self.observer = racks, observer

    def document(self, name: str, levels: object = None, **spec: Any) -> dict[str, Any]:
        login = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
        body: dict[str, Any] = {
            "cluster": {
                "bootstrapServers": self.racks.addresses("brokers", USER_PORT),
                "bootstrapControllers": self.racks.addresses("controllers", USER_PORT),
                "requestTimeout": "5s",
                "sasl": login,
                "controllerListener": {"sasl": login},
            },
            "workload": BOTH,
            "rollout": ROLLOUT,
            "drift": {"checkEvery": "10s"},
        }
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body | spec}

    def rolled(self, *names: str) -> bool:
        """All pods of these StatefulSets (none: of both) are Ready and of the newest revision, as Kubernetes has it."""
        pods = self.racks.pods()
        for name in names or IDS:
            found = self.plane.read(f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{name}")
            ours = [pods.get(pod, {}) for pod in pods_of(name)]
            if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
                return False
            newest = found["status"]["updateRevision"]
            if not all(one and one["metadata"]["labels"]["controller-revision-hash"] == newest for one in ours):
                return False
            if not all(is_true("Ready", one) for one in ours):
                return False
        return True

    def until_rolled(self, *names: str, seconds: float = ROLLED) -> None:
        """By Kubernetes; then by the operator, who waits until nodes are stable."""
        try:
            wait_until("all pods are of the newest revision", lambda: self.rolled(*names), seconds, step=0.5)
            wait_until("the operator says so", lambda: self._condition_is("NodesRolled"), 60, step=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.told()}") from None

    def told(self) -> dict[str, Any]:
        """What a report of a failure needs of the status."""
        status = self.status(NAME)
        conditions = [(c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())]
        kept = {key: status.get(key) for key in ("rollout", "workloads", "intents", "blockers")}
        return {"conditions": conditions, **kept}

    def _condition_is(self, kind: str) -> bool:
        return self.condition(NAME, kind).get("status") == "True"

    # --- what must hold ---

    def evictions(self, since: int = 0) -> list[Row]:
        """Those that the API server carried out for the operator, in order."""
        rows = self.plane.audit.rows(since, verb="create", resource="pods", subresource="eviction", user=OPERATOR)
        return sorted((row for row in rows if row.code in (200, 201)), key=lambda row: row.at)

    @contextmanager
    def judged(self, once: Collection[str], *, downed_by_others: bool = False) -> Iterator[Judged]:
        """Each of these pods is restarted once by the operator meanwhile, no other one is, and nobody is harmed."""
        judged = Judged(self)
        yield judged
        judged.nobody_was_harmed()
        judged.each_restarted_once(once)


class Judged:
    """From the moment that it is made."""

    def __init__(self, rolling: Rolling) -> None:
        self._rolling, self._racks = rolling, rolling.racks
        self._audit, self._seen = rolling.plane.audit.mark(), rolling.observer.mark()
        self._uids = self._racks.uids()
        self._offset = self._racks.records()[-1]["offset"]

    @property
    def evicted(self) -> list[str]:
        """Pods, in order."""
        return [row.name for row in self._rolling.evictions(self._audit)]

    @property
    def eviction_times(self) -> dict[str, datetime]:
        return {row.name: row.at for row in self._rolling.evictions(self._audit)}

    def each_restarted_once(self, once: Collection[str]) -> None:
        """By the audit log, by the uids, and by what kubelet counted."""
        assert Counter(self.evicted) == Counter(once)
        pods = self._racks.pods()
        changed = {name for name, pod in pods.items() if pod["metadata"]["uid"] != self._uids[name]}
        assert changed == set(once)
        restarts = {name: pods[name]["status"]["containerStatuses"][0]["restartCount"] for name in once}
        assert set(restarts.values()) <= {0}, restarts

    def nobody_was_harmed(self) -> None:
        """No record refused, none lost; no broker told of too few replicas, nor has the log any for a moment."""
        observer = self._rolling.observer
        assert observer.complaints(self._seen) == []
        told = observer.verified()
        assert (told["lost"], told["unseen"]) == ([], [])
        assert told["acknowledged"] > 0
        assert self.below_minimum() == []

    def below_minimum(self) -> list[dict[str, Any]]:
        """Records of the metadata log that left a partition with too few replicas in sync."""
        records = (one for one in self._racks.records() if one["offset"] > self._offset)
        return [one for one in records if len(one["data"].get("isr", (1,) * MIN_IN_SYNC)) < MIN_IN_SYNC]

    def levels(self) -> dict[str, int]:
        """Those that were raised meanwhile, by the metadata log."""
        records = (one for one in self._racks.records() if one["offset"] > self._offset)
        changes = (one["data"] for one in records if one["type"] == "FEATURE_LEVEL_RECORD")
        return {one["name"]: one["featureLevel"] for one in changes}


def prepare(racks: Racks) -> None:
    """The CRD, the operator's account and rights, its login, and what that may do to Kafka."""
    plane, rbac = racks.plane, "rbac.authorization.k8s.io"
    metadata = {"name": "login", "namespace": racks.namespace, "labels": {"kafkafeatures.dev/credentials": "true"}}
    data = {"username": USER, "password": PASSWORD}
    plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})
    role = {"name": "roll", "namespace": racks.namespace}
    plane.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": role, "rules": RIGHTS_TO_ROLL},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "roll"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    )
    grant(racks, "--cluster", "Describe", "ClusterAction", "Alter")
    grant(racks, "--topic=*", "Describe", "DescribeConfigs")
    grant(racks, "--cluster", "DescribeConfigs")


RIGHTS_TO_ROLL: list[dict[str, Any]] = [
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
]


def grant(racks: Racks, where: str, *operations: str, verb: str = "--add") -> None:
    """To the operator's user; `verb` "--remove" takes it away."""
    words = [word for one in operations for word in ("--operation", one)]
    force = ["--force"] if verb == "--remove" else []
    servers = ("--bootstrap-server", racks.addresses("brokers"))
    racks.tool(
        "org.apache.kafka.tools.AclCommand", *servers, verb, *force, "--allow-principal", f"User:{USER}", *words, where
    )
