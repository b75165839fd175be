"""Makes a `Pod` of the JSON of a pod. Shared by all drivers that read pods.

A missing or wrong field raises AttributeError, KeyError, TypeError or ValueError; `answers.py` makes a Failure of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.core.facts.workloads import INIT, Pod

Json = Mapping[str, Any]


def container_of(spec: Json, name: str) -> Json:
    """The container of that name in the spec of a pod or of a template; empty where there is none."""
    return next((container for container in spec.get("containers") or () if container.get("name") == name), {})


def pod_of(raw: Json, stateful_set: str, container: str, request: str = "") -> Pod:
    """The pod as a value. `container`: name of the container that runs Kafka. `request`: annotation on which another
    operator restarts the pod; empty for none.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    kafka_status: Json = next(
        (
            container_status
            for container_status in status.get("containerStatuses") or ()
            if container_status.get("name") == container
        ),
        {},
    )
    waiting = _waiting(status, conditions, kafka_status)
    # While init containers run, restarts and last end are those of the init container.
    reporting = _of_init(status) if waiting.startswith(INIT) else kafka_status
    ended = _ended(reporting)
    annotations = metadata.get("annotations") or {}
    is_ready = _is_true(conditions, "Ready")
    shares_network = bool(spec.get("hostNetwork"))  # then its IPs are those of its Kubernetes node
    ips = tuple(dict.fromkeys(address["ip"] for address in status.get("podIPs") or () if address.get("ip")))
    return Pod(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        stateful_set=stateful_set,
        revision=str((metadata.get("labels") or {}).get("controller-revision-hash") or ""),
        host_names=(*_names(metadata, spec), *(() if shares_network else ips)),
        ips=ips,
        ports_of_node=tuple(_ports_of_node(spec, status, shares_network)),
        ready=is_ready,
        ready_since=_moment(conditions["Ready"], "lastTransitionTime") if is_ready else None,
        terminating=bool(metadata.get("deletionTimestamp")),
        phase=str(status.get("phase") or ""),
        waiting=waiting,
        restarts=int(reporting.get("restartCount") or 0),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        draining=_is_true(conditions, "DisruptionTarget"),
        started_at=_moment((kafka_status.get("state") or {}).get("running"), "startedAt"),
        ended_for=str(ended.get("reason") or "Error") if ended else "",
        ended_at=_moment(ended, "finishedAt"),
        stops_by=_moment(metadata, "deletionTimestamp"),
        kubernetes_node=str(spec.get("nodeName") or ""),
        restart_requested=annotations.get(RESTART_POD_UID) == metadata["uid"],
        restart_pending=has_request(metadata, request),
    )


def has_request(metadata: Json, request: str) -> bool:
    """Tell whether the pod has this annotation on which another operator restarts it; False for an empty name."""
    return bool(request) and str((metadata.get("annotations") or {}).get(request)).lower() == "true"


def _moment(state: Json | None, name: str) -> datetime | None:
    moment = (state or {}).get(name)
    return datetime.fromisoformat(moment) if moment else None


def _ended(container: Json) -> Json:
    """The end of a container's last run, while it waits for the next or after a restart; empty where it had none."""
    states = (container.get("state") or {}, container.get("lastState") or {})
    return next((state["terminated"] for state in states if state.get("terminated")), {})


def _of_init(status: Json) -> Json:
    """The init container that keeps the other containers from starting."""
    return next(
        (container for container in status.get("initContainerStatuses") or () if _waiting_reason(container)), {}
    )


def _waiting_reason(init: Json) -> str:
    """Reason why this init container keeps the others waiting; empty if it does not."""
    reason = str(((init.get("state") or {}).get("waiting") or {}).get("reason") or "")
    return "" if reason == "PodInitializing" else reason


def _names(metadata: Json, spec: Json) -> Iterator[str]:
    """The DNS names that a Service publishes for a pod ("Stable Network ID"), up to the domain of the cluster."""
    host = str(spec.get("hostname") or metadata["name"])
    yield host
    if spec.get("subdomain"):
        name = f"{host}.{spec['subdomain']}"
        yield from (name, f"{name}.{metadata['namespace']}", f"{name}.{metadata['namespace']}.svc")


def _ports_of_node(spec: Json, status: Json, shares_network: bool) -> Iterator[tuple[str, int]]:
    """Host and port on the Kubernetes node that lead to this pod: host ports, and with hostNetwork all its ports."""
    hosts = {address["ip"] for address in status.get("hostIPs") or () if address.get("ip")}
    hosts |= {str(host) for host in (status.get("hostIP"), spec.get("nodeName")) if host}
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if shares_network else None)
            if number:
                yield from ((host, int(number)) for host in sorted(hosts))


def _waiting(status: Json, conditions: Mapping[str, Json], container: Json) -> str:
    """Reason why the container does not run, in the words of Kubernetes; empty if it runs, or nothing shows that it
    does not.

    Other containers do not count. If none has the name of Kafka's container, the document may name it wrongly, and
    Kafka may run all the same.
    """
    state = container.get("state") or {}
    phase = str(status.get("phase") or "Pending")
    if "running" in state or (phase in ("Running", "Unknown") and not state):
        return ""
    init = _waiting_reason(_of_init(status))
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
