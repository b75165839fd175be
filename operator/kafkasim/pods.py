"""Pods around a simulated cluster: StatefulSets with OnDelete, budgets, evictions, and a kubelet with its delays.

It decides when a pod is replaced, and when its node runs. The node runs the release of the template that the pod was
created from. `world` simulates the node itself; `statefulsets` defines what images mean. Callers change images, evict
and drain like people do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.workloads import Budget, Pod, StatefulSet, WorkloadsReading
from kafkasim.node import Node
from kafkasim.releases import Release
from kafkasim.statefulsets import (
    EMPTY,
    LEAKY,
    NAMESPACE,
    BudgetPlan,
    PodTiming,
    SetPlan,
    host_of,
    release_of,
    revision_of,
)
from kafkasim.world import World

_CRASH_LOOP, _LONGEST_BACKOFF_MS = "CrashLoopBackOff", 300_000
_ENDED, _OUT_OF_MEMORY = "Error", "OOMKilled"
_FORGIVEN_MS = 600_000
"""If a container is killed after it ran for this long, it is restarted without a back-off."""
_POLL_MS = 100
"""Time in ms between two checks whether a process that is being stopped has ended."""


@dataclass(eq=False)
class _Pod:
    """State of a pod; fields are those of the product's `Pod`, with times in ms.

    running: its container runs; its node may run only later, or never.
    restarts: how often its container has ended. A planned event compares it, to find out whether the container that it
        was planned for still runs.
    """

    name: str
    uid: str
    image: str
    node_id: int
    created_ms: int
    ip: str
    phase: str = "Pending"
    waiting: str = ""
    running: bool = False
    ready: bool = False
    terminating: bool = False
    draining: bool = False
    restarts: int = 0
    started_ms: int = 0
    ended_for: str = ""
    ended_ms: int = 0
    restart_requested: bool = False


@dataclass(eq=False)
class _Set:
    """A StatefulSet. `image`: in its template; `processed_image`: in the template that its controller has seen."""

    plan: SetPlan
    image: str
    processed_image: str
    update_strategy: str = "OnDelete"
    uid: str = ""


class Pods:
    """All pods of one world. At the beginning all of them run, with their nodes."""

    def __init__(self, world: World, sets: Sequence[SetPlan], timing: PodTiming | None = None) -> None:
        self.world = world
        self.timing = timing or PodTiming()
        self.budgets: list[BudgetPlan] = []
        self.sets = {plan.name: _Set(plan, plan.image, plan.image, uid=self._uid()) for plan in sets}
        self._cordoned: set[str] = set()
        self._pods: dict[str, _Pod] = {}
        self._addresses = 0
        for plan in sets:
            for ordinal, node_id in enumerate(plan.nodes):
                pod = self._new_pod(f"{plan.name}-{ordinal}", plan.image, node_id)
                pod.phase, pod.running, pod.ready = "Running", True, True
                pod.started_ms = world.now_ms

    # --- what people do ---

    def set_image(self, stateful_set: str, image: str) -> None:
        """Change the template; the pods stay as they are."""
        changed_set = self.sets[stateful_set]
        changed_set.image = image

        def process() -> None:
            changed_set.processed_image = changed_set.image

        self.world.after(self.timing.update, process)

    def evict(self, name: str, uid: str = "") -> bool:
        """Evict a pod; False if a PodDisruptionBudget forbids it. True for a pod that no longer exists."""
        pod = self._pods.get(name)
        if pod is None or pod.terminating or (uid and pod.uid != uid):
            return True
        if not all(self._allows(each, pod) for each in self.budgets):
            return False
        self.delete(name)
        return True

    def delete(self, name: str) -> None:
        """Delete a pod, without regard to budgets."""
        pod = self._pods.get(name)
        if pod is None or pod.terminating:
            return
        pod.terminating, pod.ready = True, False
        if pod.running:
            for node in self._nodes(pod):
                self.world.stop(node.role, node.id)
        self._await_end(pod, self.world.now_ms + self.timing.grace)

    def drain(self, name: str) -> None:
        """Cordon the Kubernetes node of a pod and evict the pod: until `uncordon` it is not scheduled again."""
        self._cordoned.add(name)
        pod = self._pods.get(name)
        if pod is not None:
            pod.draining = True

    def uncordon(self, name: str) -> None:
        """Make the Kubernetes node of a pod schedulable again: the pod may come back, or stay."""
        self._cordoned.discard(name)
        pod = self._pods.get(name)
        if pod is not None:
            pod.draining = False
            if pod.phase == "Pending":
                self.world.after(self.timing.start, partial(self._run, pod))

    def request_restart(self, name: str) -> None:
        """Request a restart by an annotation with the pod's own uid, which its successor does not have."""
        if name in self._pods:
            self._pods[name].restart_requested = True

    def kill(self, name: str) -> None:
        """End the container of a pod as if out of memory; the kubelet restarts it in the same pod."""
        pod = self._pods.get(name)
        if pod is None or not pod.running or pod.terminating:
            return
        for node in self._nodes(pod):
            self.world.stop(node.role, node.id, kill=True)
        is_forgiven = pod.restarts == 0 or self.world.now_ms - pod.started_ms >= _FORGIVEN_MS
        self._ended(pod, _OUT_OF_MEMORY, _OUT_OF_MEMORY if is_forgiven else _CRASH_LOOP)
        wait = self.timing.start if is_forgiven else self.timing.backoff
        self.world.after(wait, partial(self._run, pod))

    def names(self) -> list[str]:
        """The names of all pods."""
        return sorted(self._pods)

    def uid(self, name: str) -> str:
        """The UID of a pod; empty if there is no such pod."""
        return self._pods[name].uid if name in self._pods else ""

    def node_of(self, name: str) -> int:
        """The id of the node in a pod, also while the pod does not exist."""
        stateful_set, _, ordinal = name.rpartition("-")
        return self.sets[stateful_set].plan.nodes[int(ordinal)]

    # --- what can be read ---

    def reading(self) -> WorkloadsReading:
        """StatefulSets, pods and budgets in the form in which the product reads them from Kubernetes."""
        return WorkloadsReading(
            _moment(self.world.now_ms),
            tuple(self._stateful_set(set_) for set_ in self.sets.values()),
            tuple(self._budget(budget) for budget in self.budgets),
            namespace=NAMESPACE,
        )

    def _stateful_set(self, set_: _Set) -> StatefulSet:
        release = release_of(set_.image)
        return StatefulSet(
            name=set_.plan.name,
            uid=set_.uid,
            role=set_.plan.role,
            replicas=len(set_.plan.nodes),
            update_revision=revision_of(set_.plan.name, set_.processed_image),
            update_strategy=set_.update_strategy,
            observed=set_.processed_image == set_.image,
            image=set_.image,
            release="" if release is None else release.name,
            grace_seconds=self.timing.grace // 1000,
            pods=tuple(self._pod(each, set_) for each in self._of(set_)),
        )

    def _pod(self, pod: _Pod, set_: _Set) -> Pod:
        return Pod(
            name=pod.name,
            uid=pod.uid,
            stateful_set=set_.plan.name,
            revision=revision_of(set_.plan.name, pod.image),
            host_names=(host_of(pod.name, set_.plan.name), pod.ip),
            ips=(pod.ip,),
            ready=pod.ready,
            terminating=pod.terminating,
            phase=pod.phase,
            waiting=pod.waiting,
            restarts=pod.restarts,
            created_at=_moment(pod.created_ms),
            draining=pod.draining,
            started_at=_moment(pod.started_ms) if pod.running else None,
            ended_for=pod.ended_for,
            ended_at=_moment(pod.ended_ms) if pod.ended_for else None,
            restart_requested=pod.restart_requested,
        )

    def _budget(self, plan: BudgetPlan) -> Budget:
        covered = self._covered(plan)
        return Budget(
            plan.name,
            max(self._allowed(plan), 0),
            frozenset(pod.name for pod in covered),
            f"maxUnavailable: {plan.max_unavailable}",
            plan.always_allows_unhealthy,
            has_enough_healthy=self._allowed(plan) >= 0,
            most=plan.max_unavailable,
        )

    # --- budgets ---

    def _covered(self, plan: BudgetPlan) -> list[_Pod]:
        return [pod for name in plan.sets for pod in self._of(self.sets[name])]

    def _allowed(self, plan: BudgetPlan) -> int:
        """Evictions that a budget allows now, by the desired number of pods, like Kubernetes."""
        expected = sum(len(self.sets[name].plan.nodes) for name in plan.sets)
        healthy = sum(pod.ready and not pod.terminating for pod in self._covered(plan))
        return healthy - (expected - plan.max_unavailable)

    def _allows(self, plan: BudgetPlan, pod: _Pod) -> bool:
        """Tell whether a budget allows to evict this pod now."""
        if pod not in self._covered(plan):
            return True
        if not pod.ready:
            return plan.always_allows_unhealthy or self._allowed(plan) >= 0
        return self._allowed(plan) > 0

    # --- the kubelet, and the controller of the StatefulSet ---

    def _await_end(self, pod: _Pod, until_ms: int) -> None:
        """Wait until the nodes of a deleted pod have stopped, and replace it; kill them at `until_ms`."""
        stopping = [node for node in self._nodes(pod) if node.running] if pod.running else []
        if not stopping:
            pod.running = False
            pod.phase = "Failed"
            self.world.after(self.timing.recreate, partial(self._replace, pod))
        elif self.world.now_ms >= until_ms:
            for node in stopping:
                self.world.stop(node.role, node.id, kill=True)
            self._await_end(pod, until_ms)
        else:
            self.world.after(_POLL_MS, partial(self._await_end, pod, until_ms))

    def _replace(self, pod: _Pod) -> None:
        """Replace a pod by one of the template as Kubernetes has it now."""
        stateful_set = pod.name.rpartition("-")[0]
        new_pod = self._new_pod(pod.name, self.sets[stateful_set].processed_image, pod.node_id)
        if pod.name not in self._cordoned:
            self.world.after(self.timing.start, partial(self._run, new_pod))

    def _run(self, pod: _Pod) -> None:
        """Start the container; its node runs a while later, or never."""
        if not self._is_there(pod) or pod.running or pod.terminating:
            return
        pod.phase, pod.waiting, pod.running, pod.started_ms = "Running", "", True, self.world.now_ms
        release = release_of(pod.image)
        if release is None:
            self.world.after(self.timing.crash, partial(self._crashed, pod))
            return
        is_broker = any(node.role is Role.BROKER for node in self._nodes(pod))
        boot = self.timing.boot_broker if is_broker else self.timing.boot_controller
        self.world.after(boot, partial(self._boot, pod, release, pod.restarts))

    def _boot(self, pod: _Pod, release: Release, life: int) -> None:
        """Start the nodes of a pod. `life`: `restarts` of the pod when this event was planned; so in the methods
        below.
        """
        if not self._is_there(pod) or not pod.running or pod.terminating or pod.restarts != life:
            return
        if pod.image.endswith(EMPTY):
            self.world.format_disk(pod.node_id)
        for node in self._nodes(pod):
            self.world.start(node.role, node.id, release)
        if not all(node.running for node in self._nodes(pod)):
            self._end(pod)
            return
        self.world.after(self.timing.ready, partial(self._probe, pod, life))
        self.world.after(self.timing.registration, partial(self._give_up, pod, life))
        if pod.image.endswith(LEAKY):
            self.world.after(self.timing.leak, partial(self._leaked, pod, life))

    def _probe(self, pod: _Pod, life: int) -> None:
        """Mark the pod ready when its port is open, whatever the state of replicas."""
        if not self._is_there(pod) or not pod.running or pod.terminating or pod.restarts != life:
            return
        pod.ready = all(node.listening for node in self._nodes(pod))
        if not pod.ready:
            self.world.after(self.timing.ready, partial(self._probe, pod, life))

    def _give_up(self, pod: _Pod, life: int) -> None:
        """End the process of a broker that could not register in time."""
        refused = [node for node in self._nodes(pod) if node.running and node.refused]
        if self._is_there(pod) and pod.running and pod.restarts == life and refused:
            self._end(pod)

    def _leaked(self, pod: _Pod, life: int) -> None:
        """End a process that leaks memory: after a while, when a roll may have continued already."""
        if self._is_there(pod) and pod.running and not pod.terminating and pod.restarts == life:
            self._end(pod)

    def _end(self, pod: _Pod) -> None:
        """End the process by itself, with both roles of a combined node."""
        for node in self._nodes(pod):
            self.world.stop(node.role, node.id, kill=True)
        self._crashed(pod)

    def _crashed(self, pod: _Pod) -> None:
        """Note that the container has ended by itself, and start it again after a pause that doubles each time, up to
        `_LONGEST_BACKOFF_MS`.
        """
        if not self._is_there(pod) or pod.terminating:
            return
        wait = min(self.timing.backoff << min(pod.restarts, 8), _LONGEST_BACKOFF_MS)
        self._ended(pod, _ENDED, _CRASH_LOOP)
        self.world.after(wait, partial(self._run, pod))

    def _ended(self, pod: _Pod, reason: str, waiting_reason: str) -> None:
        """Note that the container has ended. `waiting_reason`: the one that Kubernetes shows until its next start."""
        pod.running, pod.ready, pod.waiting = False, False, waiting_reason
        pod.ended_for, pod.ended_ms = reason, self.world.now_ms
        pod.restarts += 1

    # --- pods and their nodes ---

    def _new_pod(self, name: str, image: str, node_id: int) -> _Pod:
        """A new pod with this name, and a new uid and IP address."""
        self._addresses += 1
        ip = f"10.1.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        pod = self._pods[name] = _Pod(name, self._uid(), image, node_id, self.world.now_ms, ip)
        for node in self._nodes(pod):
            self.world.ips[node.role, node.id] = ip
        return pod

    def _is_there(self, pod: _Pod) -> bool:
        """Tell whether this pod still exists: True until a new pod has taken its name."""
        return self._pods.get(pod.name) is pod

    def _of(self, set_: _Set) -> Iterator[_Pod]:
        for ordinal in range(len(set_.plan.nodes)):
            pod = self._pods.get(f"{set_.plan.name}-{ordinal}")
            if pod is not None:
                yield pod

    def _nodes(self, pod: _Pod) -> list[Node]:
        keys = ((role, pod.node_id) for role in Role)
        return [self.world.nodes[key] for key in keys if key in self.world.nodes]

    def _uid(self) -> str:
        return f"{self.world.random.getrandbits(64):016x}"


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
