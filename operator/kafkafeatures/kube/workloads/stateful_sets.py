"""The StatefulSet driver: what a cluster's StatefulSets, pods and budgets are, and the eviction of one pod.

Called by a reconciliation whose document names StatefulSets. It judges nothing (`core/roll/` does), watches
nothing, and reads only in the namespace of the resource. Its only write is an eviction of exactly the pod that was
seen, by uid: it never deletes a pod, never shortens its grace period, and never writes to a StatefulSet, which Git may
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from kafkafeatures.core.engine.steps import Applied, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.engine.wanted import Rollout
from kafkafeatures.core.facts.binaries import release_of
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import INIT, Budget, Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.errors import Conflict, Forbidden, Gone, KubeError, Refused, Throttled, Unavailable
from kafkafeatures.kube.workloads.selectors import as_query, selects

MOST_PODS = 2_000
"""Of one cluster. More of them match a selector only by mistake."""
MOST_BUDGETS = 2_000
TOO_MANY_REQUESTS, FORBIDDEN, BAD_REQUEST = 429, 403, 400

REMEDY = "name the namespace in the chart's value drivers.statefulSet, or grant the rights of docs/how-to/install.md"

Json = Mapping[str, Any]
Rival = Callable[[str], str]
"""Of a StatefulSet: the older resource that names it too; empty where there is none."""


class _TooLarge(Exception):
    """More than a cluster has."""


class StatefulSets:
    """`WorkloadPort` for the StatefulSets of one document."""

    def __init__(
        self,
        api: WorkloadsApi,
        namespace: str,
        rollout: Rollout,
        now: Callable[[], datetime],
        rival: Rival = lambda name: "",
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._rollout = rollout
        self._now = now
        self._rival = rival

    async def read(self) -> WorkloadsReading | Failure:
        try:
            return await self._read()
        except Forbidden as error:
            return Failure(FailureKind.AUTHORIZATION, f"namespace {self._namespace}", str(error), REMEDY)
        except Refused as error:
            return Failure(FailureKind.REJECTED, f"namespace {self._namespace}", str(error))
        except (KubeError, OSError) as error:
            return Failure(FailureKind.UNREACHABLE, "the API server", str(error))
        except _TooLarge as error:
            remedy = "correct the selector of the StatefulSets, which no other pod may match"
            return Failure(FailureKind.TOO_LARGE, f"namespace {self._namespace}", str(error), remedy)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"a StatefulSet, a pod or a PodDisruptionBudget is not as Kubernetes writes one: {error!r}"
            return Failure(FailureKind.REJECTED, f"namespace {self._namespace}", text)

    async def restart(self, step: RestartNode) -> Outcome:
        try:
            await self._api.evict(self._namespace, step.pod, step.pod_uid)
        except Gone:
            return Applied()
        except Throttled as error:
            return Rejected(TOO_MANY_REQUESTS, str(error))
        except Forbidden as error:
            return Rejected(FORBIDDEN, f"{error}; {REMEDY}")
        except Refused as error:
            return Rejected(BAD_REQUEST, str(error))
        except (Conflict, Unavailable, OSError) as error:
            # A Conflict is of the uid, so that life of the pod is over, or of a version; both answers are alike but for
            # their English. The next reading of the pods tells.
            return OutcomeUnknown(str(error))
        return Applied()

    async def _read(self) -> WorkloadsReading:
        at = self._now()
        found, missing = [], []
        labels: dict[str, Json] = {}
        for role, names in (("controllers", self._rollout.controllers), ("brokers", self._rollout.brokers)):
            for name in names:
                one = await self._stateful_set(name, role, labels)
                if one is None:
                    missing.append(name)
                else:
                    found.append(one)
        budgets = await self._budgets(labels) if labels else ()
        return WorkloadsReading(at, tuple(found), budgets, tuple(missing), self._namespace)

    async def _stateful_set(self, name: str, role: str, labels: dict[str, Json]) -> StatefulSet | None:
        """With its pods. None where it is not there, or about to go."""
        try:
            raw = await self._api.stateful_set(self._namespace, name)
        except Gone:
            return None
        metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
        if metadata.get("deletionTimestamp"):
            return None
        pods = []
        async with aclosing(self._api.pods(self._namespace, as_query(spec["selector"]))) as listed:
            async for one in listed:
                if any(owner.get("uid") == metadata["uid"] for owner in one["metadata"].get("ownerReferences") or ()):
                    pods.append(_pod(one, name, self._rollout.container))
                    labels[one["metadata"]["name"]] = one["metadata"].get("labels") or {}
                if len(labels) > MOST_PODS:
                    raise _TooLarge(f"there are more than {MOST_PODS} pods of this cluster")
        template = spec["template"]
        container = _container(template["spec"], self._rollout.container)
        about = template.get("metadata") or {}
        image = str(container.get("image") or "")
        return StatefulSet(
            name=name,
            uid=str(metadata["uid"]),
            role=role,
            replicas=int(spec.get("replicas", 1)),
            update_revision=str(status.get("updateRevision") or ""),
            update_strategy=str((spec.get("updateStrategy") or {}).get("type") or "RollingUpdate"),
            observed=int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0),
            image=image,
            release=release_of(about.get("labels") or {}, about.get("annotations") or {}, image),
            conflict=_manager(metadata) or self._rival(name),
            grace_seconds=int(template["spec"].get("terminationGracePeriodSeconds", 30)),
            labels=dict(spec["selector"].get("matchLabels") or {}),
            pods=tuple(sorted(pods, key=lambda pod: pod.name)),
            is_ordered=spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
            first_ordinal=int((spec.get("ordinals") or {}).get("start") or 0),
        )

    async def _budgets(self, labels: Mapping[str, Json]) -> tuple[Budget, ...]:
        """Those that cover one of these pods, by their labels."""
        found, seen = [], 0
        async with aclosing(self._api.disruption_budgets(self._namespace)) as listed:
            async for raw in listed:
                seen += 1
                if seen > MOST_BUDGETS:
                    raise _TooLarge(f"there are more than {MOST_BUDGETS} PodDisruptionBudgets")
                selector = raw["spec"].get("selector")
                covered = frozenset(name for name, one in labels.items() if selects(selector, one))
                if covered:
                    found.append(_budget(raw, covered))
        return tuple(found)


def _manager(metadata: Json) -> str:
    """The controller that made the StatefulSet, such as another operator: it restarts pods as it likes."""
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    return f"{owner['kind']} {owner['name']} ({owner['apiVersion'].partition('/')[0]})" if owner else ""


def _container(spec: Json, name: str) -> Json:
    """Of a pod or a template; empty where there is none of that name."""
    return next((one for one in spec.get("containers") or () if one.get("name") == name), {})


# --- pods ---


def _pod(raw: Json, stateful_set: str, container: str) -> Pod:
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    running: Json = next((one for one in status.get("containerStatuses") or () if one.get("name") == container), {})
    waiting = _waiting(status, conditions, running)
    told = _of_init(status) if waiting.startswith(INIT) else running
    ended = _ended(told)
    shares_network = bool(spec.get("hostNetwork"))
    ips = tuple(dict.fromkeys(one["ip"] for one in status.get("podIPs") or () if one.get("ip")))
    return Pod(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        stateful_set=stateful_set,
        revision=str((metadata.get("labels") or {}).get("controller-revision-hash") or ""),
        host_names=(*_names(metadata, spec), *(() if shares_network else ips)),
        ips=ips,
        ports_of_node=tuple(_ports_of_node(spec, status, shares_network)),
        ready=_is_true(conditions, "Ready"),
        terminating=bool(metadata.get("deletionTimestamp")),
        phase=str(status.get("phase") or ""),
        waiting=waiting,
        restarts=int(told.get("restartCount") or 0),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        draining=_is_true(conditions, "DisruptionTarget"),
        started_at=_moment((running.get("state") or {}).get("running"), "startedAt"),
        ended_for=str(ended.get("reason") or "Error") if ended else "",
        ended_at=_moment(ended, "finishedAt"),
    )


def _moment(state: Json | None, name: str) -> datetime | None:
    moment = (state or {}).get(name)
    return datetime.fromisoformat(moment) if moment else None


def _ended(container: Json) -> Json:
    """Of its last run, while it waits for the next one or after it was started again; empty where there was none."""
    states = (container.get("state") or {}, container.get("lastState") or {})
    return next((one["terminated"] for one in states if one.get("terminated")), {})


def _of_init(status: Json) -> Json:
    """The container that keeps the others from starting."""
    return next((one for one in status.get("initContainerStatuses") or () if _keeps_waiting(one)), {})


def _keeps_waiting(init: Json) -> str:
    """Why; empty where it does not."""
    reason = str(((init.get("state") or {}).get("waiting") or {}).get("reason") or "")
    return "" if reason == "PodInitializing" else reason


def _names(metadata: Json, spec: Json) -> Iterator[str]:
    """As its Service publishes them (docs: "Stable Network ID"); in full up to the domain of the cluster."""
    host = str(spec.get("hostname") or metadata["name"])
    yield host
    if spec.get("subdomain"):
        name = f"{host}.{spec['subdomain']}"
        yield from (name, f"{name}.{metadata['namespace']}", f"{name}.{metadata['namespace']}.svc")


def _ports_of_node(spec: Json, status: Json, shares_network: bool) -> Iterator[tuple[str, int]]:
    hosts = {one["ip"] for one in status.get("hostIPs") or () if one.get("ip")}
    hosts |= {str(one) for one in (status.get("hostIP"), spec.get("nodeName")) if one}
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if shares_network else None)
            if number:
                yield from ((host, int(number)) for host in sorted(hosts))


def _waiting(status: Json, conditions: Mapping[str, Json], container: Json) -> str:
    """Why the container does not run, in Kubernetes' own words; empty where it runs, and where nothing says otherwise.

    Others of the pod say nothing of it: a pod whose template calls the container by another name still runs Kafka.
    """
    state = container.get("state") or {}
    phase = str(status.get("phase") or "Pending")
    if "running" in state or (phase in ("Running", "Unknown") and not state):
        return ""
    init = _keeps_waiting(_of_init(status))
    if init:
        return f"{INIT}{init}"
    for kind in ("waiting", "terminated"):
        if kind in state:
            return str(state[kind].get("reason") or kind)
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unschedulable")
    return str(status.get("reason") or phase)


def _is_true(conditions: Mapping[str, Json], kind: str) -> bool:
    return conditions.get(kind, {}).get("status") == "True"


# --- budgets ---


def _budget(raw: Json, covered: frozenset[str]) -> Budget:
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    counted = int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)
    expected, desired = int(status.get("expectedPods") or 0), int(status.get("desiredHealthy") or 0)
    limits: Sequence[str] = [
        f"{name}: {spec[name]}" for name in ("maxUnavailable", "minAvailable") if spec.get(name) is not None
    ]
    return Budget(
        name=str(metadata["name"]),
        disruptions_allowed=int(status.get("disruptionsAllowed") or 0),
        pods=covered,
        limit=", ".join(limits) or "no limit",
        always_allows_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        has_enough_healthy=0 < desired <= int(status.get("currentHealthy") or 0),
        most=max(expected - desired, 0) if counted and expected else -1,
    )
