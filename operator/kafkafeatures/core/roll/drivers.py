"""Drivers: who restarts the nodes of a cluster, and how. `spec.workload.driver` names one of `DRIVERS`.

A driver is one object, and no other code compares its name. To add one that restarts pods: write its Kubernetes side,
one module of `kube/workloads/` (what it reads, its request, its rights); add a line to `DRIVERS`; give the chart its
rights, and the CRD its name. What must hold before its restarts is a module like `core/roll/stateful_sets.py`.

Pure. Chosen by `core/resolve.py`; called by `core/roll/` and `core/ibp/`, by commands, and by `reconcile/` to know what
has to be read. Every document has a driver, even if no pod is ever read, so the modules that judge pods are imported
only in its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.settling import EVICTED_WITHIN
from kafkafeatures.core.roll.conditions import Conditions, NoConditions

if TYPE_CHECKING:
    from kafkafeatures.core.engine.desired_state import Rollout
    from kafkafeatures.core.facts.observation import Observation
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.levels.update_feature import UpdateFeature
    from kafkafeatures.core.roll.pods import Fleet
    from kafkafeatures.core.roll.targets import Target


ROLES = ("controllers", "brokers")
"""Keys of `spec.workload.statefulSet`, in the order of a roll."""


class RestartScope(Enum):
    """Extent of one request: the nodes that it restarts."""

    ONE_NODE = "one node"
    WHOLE_SET = "a whole set at once"


class Driver(Struct, frozen=True):
    """Properties of a driver, which are known before anything is read. The base class restarts no node.

    name: its name in `spec.workload.driver`.
    adapter: its module of `kube/workloads/`, which reads pods, sends requests and lists its rights; empty if it needs
        nothing of Kubernetes.
    asks_people: a person restarts the nodes that are named.
    kind, key: what its pods are in, and the field of the document that names it; for messages.
    restarts_outdated: it restarts outdated nodes; False: another operator does, so it waits for them, and restarts a
        pod only on request.
    by_selector: its pods are those that a selector matches, and each node of the cluster must run in one of them.
    request: what restarts a pod, such as "annotation"; empty for an eviction. That of a driver with `asked` is its own.
    request_lifetime: time, longer than a request can be on its way, after which one that was withdrawn or not repeated
        is not carried out.
    asked: who carries out a request that stays on the pod until then, and that can be withdrawn; empty for nobody.
    reason: reason of its waits for this other operator.
    halt: reason of its halts while a person keeps this other operator from restarting pods; None for none.
    needs_one_at_a_time: reason why `maxParallel` must be 1; empty if it need not.
    reach: the nodes that one request restarts.
    most: largest number of nodes that may be away at once, whatever the document allows; None: no limit of its own.
    """

    name: str
    adapter: str = ""
    asks_people: bool = False
    kind: str = "StatefulSet"
    key: str = "spec.workload.statefulSet"
    restarts_outdated: bool = True
    by_selector: bool = False
    request: str = ""
    request_lifetime: timedelta = EVICTED_WITHIN
    asked: str = ""
    reason: Reason = Reason.ROLLING_NODES
    halt: Reason | None = None
    needs_one_at_a_time: str = ""
    reach: RestartScope = RestartScope.ONE_NODE
    most: int | None = None

    @property
    def reads_pods(self) -> bool:
        """Tell whether it reads the pods that the document names, and restarts them through a `WorkloadPort`."""
        return bool(self.adapter)

    @property
    def restarts_nodes(self) -> bool:
        """Tell whether nodes are restarted at all, by the operator or by a person."""
        return self.reads_pods or self.asks_people

    @property
    def only_follows(self) -> bool:
        """Tell whether another operator makes every restart, so that it cannot be asked for one."""
        return self.reads_pods and not self.restarts_outdated and not self.request

    @property
    def place(self) -> str:
        """What has the pods of all nodes, for messages."""
        return "the selector of the document" if self.by_selector else f"the {self.kind}s of the document"

    @property
    def remedy_of_container(self) -> str:
        """Remedy for pods without the container in which Kafka should run."""
        return f"correct {self.key}.container"

    @property
    def remedy_of_unnamed(self) -> str:
        """Remedy for a node that is in no pod of the document."""
        named = f"let {self.key}.selector match its pod" if self.by_selector else f"name its {self.kind} in {self.key}"
        return f"{named}, and let it advertise the name of its pod"

    def remedy_of_foreign(self, owner: str) -> str:
        """Remedy for a pod of another cluster. `owner`: name of what has it."""
        return f"narrow {self.key}.selector" if self.by_selector else f"take {owner} out of {self.key}"

    def fleet(
        self, observation: Observation, rollout: Rollout, changes: tuple[UpdateFeature, ...], flying: Mapping[int, str]
    ) -> Fleet:
        """Return the nodes that are outdated, the pods that they run in, and what must be repaired before any of them
        is restarted.

        `changes`: levels that are to be changed. `flying`: names of the pods of nodes in flight, by node id.
        """
        from kafkafeatures.core.roll.pods import Fleet

        return Fleet.EMPTY

    def targets(self, observation: Observation, changes: tuple[UpdateFeature, ...]) -> frozenset[Target] | None:
        """Targets that outdated nodes are rolled to; None if they are not known."""
        return frozenset()

    def names_in(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of what has its pods, in a document of any form; they identify it within a namespace, so that no other
        resource restarts the same pods.
        """
        return ()

    def place_in(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a document of any form has at `key`; empty for nothing."""
        return _at(spec, self.key)

    def remedy_of_outdated(self, title: str) -> str:
        """Remedy for a node that was restarted and is as outdated as before."""
        return "find out why its restart did not help, then change the document or the image"

    def remedy_of_missing(self, reading: WorkloadsReading, pod: str, title: str) -> str:
        """Remedy for a pod that is gone and is not created again; `title`: of its node."""
        return NoConditions().remedy_of_missing(reading, pod, title)


class ByHand(Driver, frozen=True):
    """A person restarts the nodes. A node is outdated if it does not support a level that the document asks for."""

    def fleet(
        self, observation: Observation, rollout: Rollout, changes: tuple[UpdateFeature, ...], flying: Mapping[int, str]
    ) -> Fleet:
        from kafkafeatures.core.roll.pods import Fleet
        from kafkafeatures.core.roll.proposal import nodes_to_restart

        return Fleet(needing=nodes_to_restart(observation, changes))

    def targets(self, observation: Observation, changes: tuple[UpdateFeature, ...]) -> frozenset[Target] | None:
        from kafkafeatures.core.roll.proposal import lacking
        from kafkafeatures.core.roll.targets import targets_of_levels

        return frozenset(target for node in observation.nodes for target in targets_of_levels(lacking(node, changes)))

    def remedy_of_outdated(self, title: str) -> str:
        return f"restart {title} with a Kafka that supports it, or change the document"


class ThroughPods(Driver, frozen=True):
    """Restarts pods by requests to Kubernetes. A pod is outdated if it is not of the update revision of its
    StatefulSet.

    conditions: makes the conditions of this driver, called when pods are judged, so that nothing is imported earlier.
    """

    conditions: Callable[[], Conditions] = NoConditions

    def fleet(
        self, observation: Observation, rollout: Rollout, changes: tuple[UpdateFeature, ...], flying: Mapping[int, str]
    ) -> Fleet:
        from kafkafeatures.core.roll.matching import fleet_of

        return fleet_of(observation, rollout, flying, self, is_changing=bool(changes))

    def targets(self, observation: Observation, changes: tuple[UpdateFeature, ...]) -> frozenset[Target] | None:
        from kafkafeatures.core.roll.proposal import pods_in
        from kafkafeatures.core.roll.targets import outdated_targets

        return outdated_targets(observation) if pods_in(observation) is not None else None

    def names_in(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        sets = _at(spec, self.key)
        return tuple(dict.fromkeys(str(name) for role in ROLES for name in sets.get(role) or ()))

    def remedy_of_missing(self, reading: WorkloadsReading, pod: str, title: str) -> str:
        return self.conditions().remedy_of_missing(reading, pod, title)


class ThroughAnother(ThroughPods, frozen=True):
    """Follows another operator, which makes the pods from one resource and restarts outdated ones itself.

    resource: kind of that resource.
    """

    resource: str = ""
    restarts_outdated: bool = False

    @property
    def place(self) -> str:
        return f"the {self.kind}s of the {self.resource}"

    @property
    def remedy_of_container(self) -> str:
        return f"compare it with others of {self.asked}, which runs Kafka in a container of this name"

    @property
    def remedy_of_unnamed(self) -> str:
        return f"let {self.asked} run it in a pod, or stop it and unregister it"

    def remedy_of_foreign(self, owner: str) -> str:
        return f"correct the labels of {owner}"

    def names_in(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        name = _at(spec, self.key).get("name")
        return (f"{self.resource} {name}",) if isinstance(name, str) else ()


class BySelector(ThroughPods, frozen=True):
    """Follows any other operator, whose pods are known by a label selector alone."""

    restarts_outdated: bool = False
    by_selector: bool = True

    def names_in(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        return ()  # it restarts no pod, so no other resource is a rival


def _at(spec: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping at a key such as "spec.workload.statefulSet"; empty for none, or for anything else."""
    value: Any = spec
    for part in key.split(".")[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _of_stateful_sets() -> Conditions:
    from kafkafeatures.core.roll import stateful_sets

    return stateful_sets


def _of_strimzi() -> Conditions:
    from kafkafeatures.core.roll.strimzi import StrimziConditions

    return StrimziConditions()


NOBODY = Driver("None")
MANUAL = ByHand("Manual", asks_people=True, most=1)
STATEFUL_SET = ThroughPods("StatefulSet", "stateful_sets", conditions=_of_stateful_sets)
STRIMZI = ThroughAnother(
    "Strimzi",
    "strimzi",
    kind="StrimziPodSet",
    key="spec.cluster.strimzi",
    resource="Kafka",
    request="annotation",
    request_lifetime=timedelta(minutes=10),  # it reads requests every 2 minutes, and tries for minutes to carry out one
    asked="Strimzi",
    reason=Reason.WAITING_FOR_STRIMZI,
    halt=Reason.STRIMZI_PAUSED,
    needs_one_at_a_time="Strimzi restarts pods one after the other",
    conditions=_of_strimzi,
)

PODS = BySelector("Pods", "followed_pods", kind="pods", key="spec.workload.pods")

DRIVERS: tuple[Driver, ...] = (NOBODY, MANUAL, STATEFUL_SET, STRIMZI, PODS)
"""The drivers that a document may name."""


def driver_named(name: object) -> Driver | None:
    """Driver of that name; None if there is none."""
    return next((driver for driver in DRIVERS if driver.name == name), None)


def driver_in_document(spec: Mapping[str, Any]) -> Driver | None:
    """Driver of a document of any form: the one that it names, else the one for its cluster; None if there is none of
    that name.
    """
    name = _at(spec, "spec.workload").get("driver")
    if name:
        return driver_named(name)
    implied = (driver for driver in DRIVERS if isinstance(driver, ThroughAnother) and driver.names_in(spec))
    return next(implied, NOBODY)


def unused_sets(spec: Mapping[str, Any]) -> str:
    """Note about the StatefulSets in a document of any form that names no driver; empty where there is none."""
    workload = _at(spec, "spec.workload")
    if workload.get("driver") or not workload.get("statefulSet"):
        return ""
    text = f"{STATEFUL_SET.key} has no effect without a driver, so no pod is restarted"
    return f"{text}; set spec.workload.driver to {STATEFUL_SET.name}, or to {NOBODY.name} if this is intended"


def request_lifetime_of(request: str) -> timedelta:
    """Lifetime of a request of this kind, also once the document names another driver."""
    return next((driver.request_lifetime for driver in DRIVERS if driver.request == request), EVICTED_WITHIN)


def asking_driver(request: str) -> Driver | None:
    """Driver whose requests wait for another operator (`Driver.asked`), also once the document names another driver;
    None where this is not such a request.
    """
    return next((driver for driver in DRIVERS if driver.asked and driver.request == request), None)


def driver_of(rollout: Rollout) -> Driver:
    """Driver that the document names. Raises ValueError for an unknown name, which `core/resolve.py` rejects before."""
    driver = driver_named(rollout.driver)
    if driver is None:
        raise ValueError(f"there is no driver {rollout.driver!r}")
    return driver
