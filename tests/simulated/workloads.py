"""What becomes of pods on the simulated API server: the controllers of StatefulSets and budgets, and a kubelet.

StatefulSets with OnDelete, revisions and ordinals; pods that start, become ready, crash or cannot be pulled; evictions
that a PodDisruptionBudget may refuse. Time is the server's: what is due happens in `run`. Nothing is drawn by lot.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zlib import crc32

from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Reply, refusal

Json = dict[str, Any]
RUNS, CRASHES, CANNOT_BE_PULLED, NEVER_READY = "runs", "CrashLoopBackOff", "ImagePullBackOff", "never ready"


@dataclass(frozen=True, slots=True)
class Delays:
    """observe: until a changed template has a revision; stop: until a pod that was asked to is gone; create: until the
    next one is there; start: until its container runs; ready: until a probe says so.
    """

    observe: timedelta = timedelta(seconds=1)
    stop: timedelta = timedelta(seconds=5)
    create: timedelta = timedelta(seconds=1)
    start: timedelta = timedelta(seconds=2)
    ready: timedelta = timedelta(seconds=3)


class Workloads:
    """The StatefulSets and pods of one namespace. `images`: what becomes of a container of an image; those that are not
    in it run. `restarts_on`: the annotation of a pod on which another operator restarts it; without one nothing does.
    `made`: changes each pod before it is there, as another operator makes its own.
    """

    def __init__(self, server: ApiServer, namespace: str = "kafka", delays: Delays | None = None) -> None:
        self.server, self.namespace, self.delays = server, namespace, delays or Delays()
        self.images: Mapping[str, str] = {}
        self.evictions: list[str] = []
        self.restarts_on = ""
        self.made: Callable[[Json], None] = lambda pod: None
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = itertools.count()
        server.evictor, server.patched = self._evicted, self._annotated

    # --- what people do ---

    def create(self, name: str, replicas: int, image: str = "kafka:4.1.2", **spec: Any) -> None:
        """A StatefulSet whose pods all run, and come back side by side. `spec`: in place of what is usual."""
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "kafka", "image": image}], "terminationGracePeriodSeconds": 600},
        }
        usual = {"serviceName": name, "selector": {"matchLabels": labels}, "updateStrategy": {"type": "OnDelete"}}
        usual["podManagementPolicy"] = "Parallel"
        metadata = {"namespace": self.namespace, "name": name, "uid": self.server.new_uid(), "generation": 1}
        made = {"metadata": metadata, "spec": {"replicas": replicas, **usual, "template": template, **spec}}
        self.server.store(self._set(name), {**made, "status": _observed(made)})
        for ordinal in range(replicas):
            self._create(name, ordinal)
            self._start(f"{name}-{ordinal}", self.uid(f"{name}-{ordinal}"))
            self._become_ready(f"{name}-{ordinal}", self.uid(f"{name}-{ordinal}"))

    def budget(self, name: str, selector: Mapping[str, str], **spec: Any) -> None:
        """A PodDisruptionBudget, new or changed, with the status that its controller gives it."""
        metadata = {"namespace": self.namespace, "name": name, "uid": self.server.new_uid(), "generation": 1}
        made = {"metadata": metadata, "spec": {"selector": {"matchLabels": dict(selector)}, **spec}}
        self.server.store(self._budget(name), made)
        self._count()

    def change(self, name: str, change: Callable[[Json], object]) -> None:
        """A StatefulSet, by a person; the controller notices later."""
        found = self._read(self._set(name))
        change(found)
        found["metadata"]["generation"] += 1
        self.server.store(self._set(name), found)
        self._after(self.delays.observe, partial(self._reconcile, name))

    def set_image(self, name: str, image: str) -> None:
        """Sets the image of the template; pods stay as they are."""
        self.change(name, lambda one: one["spec"]["template"]["spec"]["containers"][0].update(image=image))

    def change_pod(self, name: str, change: Callable[[Json], object]) -> None:
        """Whatever a kubelet, or another controller, makes of a pod."""
        found = self._read(self._pod(name))
        change(found)
        self.server.store(self._pod(name), found)
        self._count()

    def delete_set(self, name: str) -> None:
        """The StatefulSet alone; its pods stay, as with --cascade=orphan."""
        self.server.remove(self._set(name))

    def uid(self, pod: str) -> str:
        """The uid of a pod; empty where there is none."""
        found = self.server.read(self._pod(pod))
        return str(found["metadata"]["uid"]) if found else ""

    def pods(self) -> dict[str, str]:
        """Name -> image, of those that are there."""
        paths = self.server.there(f"/api/v1/namespaces/{self.namespace}/pods")
        return {path.rpartition("/")[2]: self._read(path)["spec"]["containers"][0]["image"] for path in paths}

    def run(self) -> None:
        """Everything that is due by now, in its order."""
        while self._due and self._due[0][0] <= self.server.now():
            heapq.heappop(self._due)[2]()

    # --- the controllers ---

    def _reconcile(self, name: str) -> None:
        found = self.server.read(self._set(name))
        if found is None:
            return
        found["status"] = _observed(found)
        self.server.store(self._set(name), found)
        replicas = found["spec"]["replicas"]
        for ordinal in range(replicas):
            if not self.uid(f"{name}-{ordinal}"):
                self._create(name, ordinal)
                uid = self.uid(f"{name}-{ordinal}")
                self._after(self.delays.start, lambda pod=f"{name}-{ordinal}", uid=uid: self._start(pod, uid))  # type: ignore[misc]
            there = self._read(self._pod(f"{name}-{ordinal}"))
            if _is_ordered(found) and (not _is_ready(there) or "deletionTimestamp" in there["metadata"]):
                break  # `monotonic` of stateful_set_control.go: those above are created once it is ready
        for pod in [
            one for one in self.pods() if one.startswith(f"{name}-") and int(one.rpartition("-")[2]) >= replicas
        ]:
            self._stop(pod, self.uid(pod))

    def _create(self, name: str, ordinal: int) -> None:
        owner = self._read(self._set(name))
        pod = f"{name}-{ordinal}"
        labels = {
            **owner["spec"]["template"]["metadata"]["labels"],
            "controller-revision-hash": owner["status"]["updateRevision"],
            "statefulset.kubernetes.io/pod-name": pod,
        }
        metadata = {
            "namespace": self.namespace,
            "name": pod,
            "uid": self.server.new_uid(),
            "labels": labels,
            "creationTimestamp": _stamp(self.server.now()),
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": owner["metadata"]["uid"],
                 "controller": True}
            ],
        }  # fmt: skip
        spec = {**owner["spec"]["template"]["spec"], "hostname": pod, "subdomain": owner["spec"]["serviceName"]}
        new = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self.made(new)
        self.server.store(self._pod(pod), new)
        self._count()

    def _start(self, name: str, uid: str) -> None:
        if self.uid(name) != uid:
            return
        fate, now = self.images.get(self.pods()[name], RUNS), _stamp(self.server.now())
        ip = f"10.0.{len(name)}.{crc32(uid.encode()) % 250 + 1}"
        state: Json = (
            {"waiting": {"reason": fate}} if fate in (CRASHES, CANNOT_BE_PULLED) else {"running": {"startedAt": now}}
        )
        container = {"name": "kafka", "ready": False, "restartCount": 3 if fate == CRASHES else 0, "state": state}
        if fate == CRASHES:
            container["lastState"] = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": now}}

        def started(pod: Json) -> None:
            pod["status"] = {
                "phase": "Pending" if fate == CANNOT_BE_PULLED else "Running",
                "podIP": ip,
                "podIPs": [{"ip": ip}],
                "hostIP": "192.0.2.1",
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
                "containerStatuses": [container],
            }

        self.change_pod(name, started)
        if fate == RUNS:
            self._after(self.delays.ready, partial(self._become_ready, name, uid))

    def _become_ready(self, name: str, uid: str) -> None:
        if self.uid(name) != uid or self.images.get(self.pods()[name], RUNS) != RUNS:
            return
        since = {"lastTransitionTime": _stamp(self.server.now())}
        ready = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", **since}]
        self.change_pod(name, lambda pod: pod["status"].update(conditions=ready))
        owner = name.rpartition("-")[0]
        if (found := self.server.read(self._set(owner))) is not None and _is_ordered(found):
            self._after(self.delays.create, partial(self._reconcile, owner))

    def _evicted(self, pod: Json) -> Reply | None:
        """Decides by the rules of `eviction.go`: a pod that does not run, or already goes, does not need a budget's
        permission.
        """
        name = pod["metadata"]["name"]
        pending = pod["status"].get("phase") in ("Pending", "Failed", "Succeeded")
        if not pending and "deletionTimestamp" not in pod["metadata"]:
            covering = [one for one in self._budgets() if _covers(one, pod)]
            if len(covering) > 1:
                text = (
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
                return refusal(500, text)
            for budget in covering:
                status = budget.get("status")
                if status is None:
                    return _too_many(budget, "is still being processed by the server.")
                if status["disruptionsAllowed"] <= 0 and not _may_go_unready(budget, pod):
                    healthy = f"{status['desiredHealthy']} healthy pods and has {status['currentHealthy']} currently"
                    return _too_many(budget, f"needs {healthy}")
        self.evictions.append(name)
        self._stop(name, pod["metadata"]["uid"])
        return None

    def _annotated(self, pod: Json) -> None:
        """What another operator does: it restarts the pods that have its annotation."""
        if self.restarts_on in pod["metadata"].get("annotations", {}):
            self._stop(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _stop(self, name: str, uid: str) -> None:
        pod = self._read(self._pod(name))
        if "deletionTimestamp" in pod["metadata"]:
            return
        pod["metadata"]["deletionTimestamp"] = _stamp(self.server.now())
        pod["status"].setdefault("conditions", []).append({"type": "DisruptionTarget", "status": "True"})
        self.server.store(self._pod(name), pod)
        self._count()
        self._after(self.delays.stop, partial(self._end, name, uid))

    def _end(self, name: str, uid: str) -> None:
        if self.uid(name) == uid:
            self.server.remove(self._pod(name))
            self._count()
            self._after(self.delays.create, partial(self._reconcile, name.rpartition("-")[0]))

    def _count(self) -> None:
        """The status of every budget, by disruption.go: where minAvailable is a number, pods that are there count."""
        pods = [self._read(path) for path in self.server.there(f"/api/v1/namespaces/{self.namespace}/pods")]
        for budget in self._budgets():
            covered = [pod for pod in pods if _covers(budget, pod)]
            owners = {one["name"] for pod in covered for one in pod["metadata"].get("ownerReferences", ())}
            sets = [one for name in owners if (one := self.server.read(self._set(name))) is not None]
            there, wanted = len(covered), sum(one["spec"]["replicas"] for one in sets)
            expected = there if "minAvailable" in budget["spec"] else wanted
            healthy = sum(_is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in covered)
            desired = _desired(budget["spec"], expected)
            budget["status"] = {
                "observedGeneration": budget["metadata"]["generation"],
                "expectedPods": expected,
                "desiredHealthy": desired,
                "currentHealthy": healthy,
                "disruptionsAllowed": max(healthy - desired, 0),
            }
            self.server.store(self._budget(budget["metadata"]["name"]), budget)

    # --- inside ---

    def _budgets(self) -> list[Json]:
        paths = self.server.there(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets")
        return [self._read(path) for path in paths]

    def _read(self, path: str) -> Json:
        found = self.server.read(path)
        assert found is not None, path
        return found

    def _after(self, delay: timedelta, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.server.now() + delay, next(self._order), act))

    def _set(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{name}"

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def _budget(self, name: str) -> str:
        return f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"


def _may_go_unready(budget: Json, pod: Json) -> bool:
    """A pod that is not ready counts for nothing: it may go if the others are enough, or always."""
    if _is_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return 0 < int(budget["status"]["desiredHealthy"]) <= int(budget["status"]["currentHealthy"])


def _too_many(budget: Json, why: str) -> Reply:
    """Which budget it was is in the details alone."""
    reply = refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")
    cause = f"The disruption budget {budget['metadata']['name']} {why}"
    details = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    return Reply(reply.status, {**reply.body, "details": details})


def _observed(one: Json) -> Json:
    """The observed part of a StatefulSet's status. An equal template has an equal revision, also when it comes back."""
    revision = f"{one['metadata']['name']}-{crc32(repr(one['spec']['template']).encode()):08x}"
    return {"observedGeneration": one["metadata"]["generation"], "updateRevision": revision}


def _is_ordered(one: Json) -> bool:
    return bool(one["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")


def _covers(budget: Json, pod: Json) -> bool:
    wanted = budget["spec"]["selector"]["matchLabels"]
    return all(pod["metadata"]["labels"].get(name) == value for name, value in wanted.items())


def _desired(spec: Json, expected: int) -> int:
    if "minAvailable" in spec:
        return int(spec["minAvailable"])
    return max(expected - int(spec["maxUnavailable"]), 0)


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
