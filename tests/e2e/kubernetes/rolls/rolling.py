"""A resource that rolls a Kafka in racks, and what must hold of every roll, by the words of others than the operator:
the API server's audit log, Kafka's dump of its metadata log, and an observer on Kafka's own client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import mean
from typing import Any

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.kubernetes.resources import Resources, allow_restarts
from tests.e2e.rig.kubernetes.audit import Row
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import USER as OPERATOR
from tests.e2e.rig.kubernetes.racks import IDS, PASSWORD, USER, USER_PORT, Racks, pods_of
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until

TOPIC, NAME = "orders", "orders"
QUIET = 8.0
"""Seconds: longer than from one restart to the next."""
ROLLED = 300.0
"""Seconds for nine nodes; no promise, a machine may be busy with other things."""
STATEFUL_SETS = "system:serviceaccount:kube-system:statefulset-controller"
TOPICS = "TOPIC_RECORD"
ALL = (*pods_of("controllers"), *pods_of("brokers"))
MIN_IN_SYNC = 2
ROLLOUT = {"maxParallel": 2, "stableFor": "3s", "nodeTimeout": "60s"}
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

    def current(self, name: str) -> list[str]:
        """Pods of a StatefulSet that are Ready and of the newest revision, as Kubernetes has it."""
        found = self.plane.read(f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{name}")
        if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
            return []
        labels = {"controller-revision-hash": found["status"]["updateRevision"]}
        pods = {one: pod for one, pod in self.racks.pods().items() if one in pods_of(name) and is_true("Ready", pod)}
        return [one for one, pod in pods.items() if labels.items() <= pod["metadata"]["labels"].items()]

    def rolled(self, *names: str) -> bool:
        """All pods of these StatefulSets (none: of both) are."""
        return all(len(self.current(name)) == len(pods_of(name)) for name in names or IDS)

    def until_rolled(self, *names: str) -> None:
        """By Kubernetes; then by the operator, who waits until nodes are stable."""
        try:
            wait_until("all pods are of the newest revision", lambda: self.rolled(*names), ROLLED, step=0.5)
            wait_until("the operator says so", lambda: self._condition_is("NodesRolled"), 60, step=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.progress()}; {self.last_words()}") from None

    def until_stalled(self) -> dict[str, Any]:
        """The condition, whatever its reason."""
        wait_until("it is Stalled", lambda: self._condition_is("Stalled"), 60, step=0.2)
        return self.condition(NAME, "Stalled")

    def waits_for(self) -> str:
        """Before the next node, as the status has it."""
        return str((self.status(NAME).get("rollout") or {}).get("waitingFor", ""))

    def over(self) -> list[str]:
        """What was acted on, by the history of the status: pods whose restart is over."""
        return [one["target"] for one in self.status(NAME).get("history", ())]

    def until_changed(self, feature: str, level: int) -> None:
        """By the status."""

        def changed() -> bool:
            found = {one["name"]: one.get("finalized") for one in self.status(NAME).get("features", ())}
            return found.get(feature) == level and self._condition_is("Ready")

        wait_until(f"{feature} is {level}", changed, 60, step=0.2)

    def progress(self) -> dict[str, Any]:
        """What a report of a failure needs of the status."""
        status = self.status(NAME)
        conditions = [(c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())]
        kept = {key: status.get(key) for key in ("rollout", "workloads", "intents", "blockers")}
        return {"conditions": conditions, **kept}

    def _condition_is(self, kind: str) -> bool:
        return self.condition(NAME, kind).get("status") == "True"

    def rolls(self, revision: str, *names: str, **spec: Any) -> None:
        """Templates of these StatefulSets (none: of both) change in Git, not their image; and the document does."""
        for name in names or IDS:
            self.racks.changed[name] = lambda one: one["spec"]["template"]["metadata"].update(
                annotations={"example.com/revision": revision}
            )
        self.racks.apply_again()
        self.apply(NAME, **spec)

    def rolls_to(self, image: str, name: str) -> None:
        """The image of one StatefulSet changes in Git, until its next change: to another name of what runs."""
        self.racks.node.tag_image(self.racks.image, image)
        self.racks.changed[name] = lambda one: one["spec"]["template"]["spec"]["containers"][0].update(image=image)
        self.racks.apply_again()
        self.apply(NAME)

    @contextmanager
    def labelled(self, name: str) -> Iterator[None]:
        """The template of one StatefulSet has another label in Git for a while. Its pods stay: none is restarted."""
        changed, before = self.racks.changed, self.racks.changed.get(name)

        def label(one: dict[str, Any]) -> None:
            if before is not None:
                before(one)
            one["spec"]["template"]["metadata"]["labels"]["example.com/mark"] = "new"

        changed[name] = label
        self.racks.apply_again()
        try:
            yield
        finally:
            del changed[name]
            changed.update({name: before} if before is not None else {})
            self.racks.apply_again()

    # --- what must hold ---

    @contextmanager
    def judged(self, once: Collection[str] | None, but_for: Collection[str] = ()) -> Iterator[Judged]:
        """No client is harmed meanwhile, and the operator restarts each of these pods once, and no other one.

        `once` None: the test itself says how often. `but_for`: topics that no broker can be spared for.
        """
        judged = Judged(self, but_for)
        yield judged
        judged.no_client_was_harmed()
        if once is not None:
            judged.each_restarted_once(once)


class Judged:
    """What happened from the moment on that it is made."""

    def __init__(self, rolling: Rolling, but_for: Collection[str]) -> None:
        self._rolling, self._racks, self._but_for = rolling, rolling.racks, but_for
        self._audit, self._seen = rolling.plane.audit.mark(), rolling.observer.mark()
        self._uids = self._racks.uids()
        self._offset = self._racks.records()[-1]["offset"]

    @property
    def evictions(self) -> list[Row]:
        """Evictions that the API server carried out for the operator, in order."""
        wanted = {"verb": "create", "resource": "pods", "subresource": "eviction", "user": OPERATOR}
        rows = self._rolling.plane.audit.rows(self._audit, **wanted)
        return sorted((row for row in rows if row.code in (200, 201)), key=lambda row: row.at)

    @property
    def evicted(self) -> list[str]:
        """Pods, in order."""
        return [row.name for row in self.evictions]

    def until_evicted(self, many: int = 1) -> list[str]:
        """Wait until this many different pods have been evicted; returns their names."""
        wait_until(f"{many} are evicted", lambda: len(set(self.evicted)) >= many, ROLLED, step=0.05)
        return self.evicted

    @property
    def created(self) -> Counter[str]:
        """How often the StatefulSet controller made a pod: how often its node was restarted."""
        wanted = {"verb": "create", "resource": "pods", "subresource": "", "user": STATEFUL_SETS, "code": 201}
        return Counter(row.name for row in self._rolling.plane.audit.rows(self._audit, **wanted))

    def each_restarted_once(self, once: Collection[str]) -> None:
        """By the audit log, by the uids, and by what kubelet counted."""
        assert self.created == Counter(once)
        assert set(self.evicted) == set(once)
        pods = self._racks.pods()
        changed = {name for name, pod in pods.items() if pod["metadata"]["uid"] != self._uids[name]}
        assert changed == set(once)
        restarts = {name: pods[name]["status"]["containerStatuses"][0]["restartCount"] for name in once}
        assert set(restarts.values()) <= {0}, restarts

    def no_client_was_harmed(self) -> None:
        """No record refused, none lost; no broker reports too few replicas in sync, nor does the log for a moment."""
        observer = self._rolling.observer
        assert observer.complaints(self._seen) == []
        told = observer.verified()
        assert (told["lost"], told["unseen"]) == ([], [])
        assert told["acknowledged"] > 0
        assert self.below_minimum() == []

    def below_minimum(self) -> list[dict[str, Any]]:
        """Records of the metadata log that left a partition with too few replicas in sync."""
        records = self._racks.records()
        topics = {one["data"]["topicId"]: one["data"]["name"] for one in records if one["type"] == TOPICS}
        changes = [one for one in records if one["offset"] > self._offset and one["data"].get("isr") is not None]
        few = [one for one in changes if len(one["data"]["isr"]) < MIN_IN_SYNC]
        return [one for one in few if topics[one["data"]["topicId"]] not in self._but_for]

    def levels(self) -> dict[str, int]:
        """The levels that were changed meanwhile, by the metadata log."""
        changes = (one["data"] for one in self._records() if one["type"] == "FEATURE_LEVEL_RECORD")
        return {one["name"]: one["featureLevel"] for one in changes}

    def most_at_once(self) -> int:
        """How many brokers were away at the same time, fenced or about to stop, by the metadata log."""
        away: set[int] = set()
        most = 0
        for one in self._records():
            data = one["data"]
            if one["type"] == "BROKER_REGISTRATION_CHANGE_RECORD":
                if data.get("inControlledShutdown") == 1 or data.get("fenced") == 1:
                    away.add(data["brokerId"])
                elif data.get("fenced") == -1:
                    away.discard(data["brokerId"])
            most = max(most, len(away))
        return most

    def phases(self) -> dict[str, float]:
        """Mean seconds of a restarted broker in each phase, by the metadata log."""
        marks: dict[int, dict[str, int]] = {}
        in_sync: dict[tuple[str, int], set[int]] = {}
        for one in self._racks.records():
            data, at, id_ = one["data"], one["at"], one["data"].get("brokerId")
            joined: set[int] = set()
            if (isr := data.get("isr")) is not None:
                where = data["topicId"], data["partitionId"]
                joined, in_sync[where] = {*isr} - in_sync.get(where, {*isr}), {*isr}
            if one["offset"] <= self._offset:
                continue
            if one["type"] == "BROKER_REGISTRATION_CHANGE_RECORD" and data.get("inControlledShutdown") == 1:
                marks[id_] = {"asked": at}
            elif one["type"] == "BROKER_REGISTRATION_CHANGE_RECORD" and id_ in marks and "fenced" in data:
                marks[id_].setdefault("fenced" if data["fenced"] == 1 else "unfenced", at)
            elif one["type"] == "REGISTER_BROKER_RECORD" and id_ in marks:
                marks[id_]["registered"] = at
            for back in joined & {it for it, told in marks.items() if "unfenced" in told}:
                marks[back]["in sync"] = at
        steps = list(pairwise(("asked", "fenced", "registered", "unfenced", "in sync")))
        return {
            f"{first} to {then}": round(mean(told[then] - told[first] for told in marks.values()) / 1000, 1)
            for first, then in steps
        }

    def _records(self) -> list[dict[str, Any]]:
        return [one for one in self._racks.records() if one["offset"] > self._offset]


def prepare(racks: Racks) -> None:
    """What the operator may do on Kubernetes, and to Kafka."""
    allow_rolls(racks)
    grant(racks, "--cluster", "Describe", "DescribeConfigs", "ClusterAction", "Alter")
    grant(racks, "--topic=*", "Describe", "DescribeConfigs")


def allow_rolls(racks: Racks) -> None:
    """The operator's rights on Kubernetes, and its login to Kafka."""
    metadata = {"name": "login", "namespace": racks.namespace, "labels": {"kafkafeatures.dev/credentials": "true"}}
    data = {"username": USER, "password": PASSWORD}
    racks.plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})
    allow_restarts(racks.plane, racks.namespace)


def grant(racks: Racks, where: str, *operations: str, verb: str = "--add") -> None:
    """To the operator's user; `verb` "--remove" takes it away."""
    words = [word for one in operations for word in ("--operation", one)]
    force = ["--force"] if verb == "--remove" else []
    servers = ("--bootstrap-server", racks.addresses("brokers"))
    racks.tool(
        "org.apache.kafka.tools.AclCommand", *servers, verb, *force, "--allow-principal", f"User:{USER}", *words, where
    )
