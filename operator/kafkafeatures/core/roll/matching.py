"""Matching of nodes and the pods that they run in, for every driver that restarts pods.

Pure. Called by the drivers of `core/roll/drivers.py` that read pods. Two facts prove that a pod runs a node. The
ordinal in the name of the pod is not one of them: nothing makes it the node id.

1. A listener that the node is registered with leads to this pod alone: `<pod>.<service>.<namespace>.svc...` or shorter,
   an IP address of the pod, or a port of the Kubernetes node that only this pod has.
2. The process that answers at an IP address of the pod says that it is this node (DescribeConfigs of BROKER <id>, which
   only that node answers). The first fact alone may deceive: its names may be those of another cluster or namespace,
   and an address may have been given to another pod. The template of a StatefulSet is the same for all its pods, so it
   does not show the id of any node. A pod whose container does not run needs no second fact: no other process can run
   in it.

If a node or a pod does not match, a blocker or a wait names it, and no pod is restarted. While a broker has not
confirmed its id, only brokers that share a partition with it wait. Nodes on which nothing depends may lack a pod.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.remedies import ghost_remedy, kind_of_replacement
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, plain_host
from kafkafeatures.core.facts.readings import ANY_CLUSTER, FailureKind, Role
from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll.conditions import PodDriver
from kafkafeatures.core.roll.followed import followed_in
from kafkafeatures.core.roll.pods import (
    Fleet,
    PodObstacle,
    PodWithoutNode,
    is_away,
    is_running,
    remedy_while_stopping,
    why_restarted,
)
from kafkafeatures.core.words import first_of

REGISTERS_WITHIN = timedelta(minutes=5)
"""Time for which a ready pod without a registered node may still be starting."""
NAMED = 3
"""Most names in a message, before "and 5 more"."""


def fleet_of(
    observation: Observation,
    rollout: Rollout,
    flying: Mapping[int, str],
    driver: PodDriver,
    *,
    is_changing: bool = False,
) -> Fleet:
    """Nodes in their pods; empty if the pods could not be read, which the caller reports.

    flying: names of the pods of nodes in flight. The next pod has the same name and the same disk, so it is known to
        run this node even before it starts.
    driver: driver of the document.
    is_changing: a level is to be changed, so that the state of another operator counts.
    """
    if not isinstance(observation.workloads, Known):
        return Fleet.EMPTY
    reading, conditions, rolls = observation.workloads.value, driver.conditions(), driver.restarts_outdated
    is_due = any(
        (rolls and not stateful_set.observed) or any(why_restarted(pod, stateful_set) for pod in stateful_set.pods)
        for stateful_set in reading.stateful_sets
    )
    followed = followed_in(reading)
    is_awaited = is_due or (not rolls and bool(is_changing or followed))
    matching = _Matching(observation, reading, flying, rollout, driver, is_due=is_due)
    is_matched = is_due or driver.by_selector
    pods = {id_: pod for id_, (pod, _) in matching.certain.items()}
    sets = {id_: owner for id_, (_, owner) in matching.certain.items()}
    names, brokers = frozenset(flying.values()), sum(Role.BROKER in node.roles for node in observation.nodes)
    needing = {id_: reason for id_, pod in pods.items() if (reason := why_restarted(pod, sets[id_]))}
    missing = 0 if rolls else matching.missing
    of_driver = conditions.blockers(reading) if is_awaited else ()
    all_waits = conditions.waits(reading, rollout.stable_for, is_due=is_awaited)
    waits = (wait for wait in all_waits if not wait.pod or wait.pod not in names)
    return Fleet(
        pods=pods,
        sets=sets,
        needing=needing,
        unavailable=frozenset(matching.unavailable()),
        blockers=(
            *_of_document(reading, rollout, driver),
            *of_driver,
            *(matching.blockers if rolls or is_matched else ()),
        ),
        waits=(*waits, *_of_unprocessed_templates(reading), *(matching.waits if is_matched else ())),
        without_node=tuple(matching.without_node) if is_matched else (),
        notes=tuple(conditions.notes(reading, rollout, brokers)),
        withheld={id_: reason for id_ in needing if (reason := conditions.refused_now(reading, pods[id_]))},
        out_of_order={
            id_: reason for id_ in needing if (reason := conditions.out_of_order(sets[id_], pods[id_], names))
        },
        followed=followed,
        followed_in=0 if rolls else missing + sum(len(stateful_set.pods) for stateful_set in reading.stateful_sets),
        missing=missing,
    )


# --- all nodes against all pods ---


class _Matching:
    """Matching of all nodes and all pods.

    certain: pod of each node, and its StatefulSet, by both facts; by the first one alone if the pod runs no process, or
        needs no restart.
    blockers: contradictions that a person has to resolve.
    waits: matches that may still be confirmed.
    without_node: pods that may still start their node.
    """

    def __init__(
        self,
        observation: Observation,
        reading: WorkloadsReading,
        flying: Mapping[int, str],
        rollout: Rollout,
        driver: PodDriver,
        *,
        is_due: bool,
    ) -> None:
        """Match all nodes. If no set of controllers is named or read, they run elsewhere and are left out.

        is_due: some pod needs a restart, or may need one.
        """
        self._node_timeout, self._driver = rollout.node_timeout, driver
        has_controllers = (
            driver.by_selector
            or rollout.controllers
            or any(owner.role == "controllers" for owner in reading.stateful_sets)
        )
        self._observation, self._reading, self._flying = observation, reading, flying
        self._pods = {pod.name: (pod, owner) for owner in reading.stateful_sets for pod in owner.pods}
        self._users = Counter(ip for pod, _ in self._pods.values() for ip in pod.ips)
        self.certain: dict[int, tuple[Pod, StatefulSet]] = {}
        self.blockers: list[Blocker] = []
        self.waits: list[PodObstacle] = []
        self.without_node: list[PodWithoutNode] = []
        nodes = [
            node
            for node in observation.nodes
            if node.roles
            and node.state is not NodeState.REFUSED
            and (has_controllers or Role.BROKER in node.roles)
            and kind_of_replacement(node) is not FailureKind.OTHER_ROLE  # a running node of another role has its id
        ]
        listed = self._advertised(nodes)
        claimed: dict[str, list[Node]] = defaultdict(list)  # by name of a pod: nodes that advertise it
        for node, names in listed:
            for name in names:
                claimed[name].append(node)
        self._without_pod: list[Node] = []
        for node, names in listed:
            if not names:
                self._without_pod.append(node)
            elif len(names) > 1:
                self._refuse((node,), f"{node.title} advertises addresses of several pods: {first_of(sorted(names))}")
            elif len(claimed[names[0]]) == 1:
                self._match(node, *self._pods[names[0]])
        for name, several in claimed.items():
            if len(several) > 1:
                titles = " and ".join(node.title for node in several[:NAMED])
                self._refuse(tuple(several), f"{titles} advertise the same pod {name}, but a pod runs one node")
        self._judge_nodes_without_pod(is_due)
        self._judge_pods_without_node(set(claimed))

    def unavailable(self) -> Iterator[int]:
        """Nodes that have no pod, whose pod is not certain, or whose pod is away."""
        yield from (node.id for node in self._without_pod)
        yield from (wait.node.id for wait in self.waits if wait.node is not None)
        yield from (id_ for id_, (pod, _) in self.certain.items() if is_away(pod))

    @property
    def missing(self) -> int:
        """Number of pods that do not exist. With a selector, the nodes alone show how many there should be."""
        if self._driver.by_selector:
            without_pod = {node.key for node in self._without_pod}
            return sum(wait.node is not None and wait.node.key in without_pod for wait in self.waits)
        return sum(max(owner.replicas - len(owner.pods), 0) for owner in self._reading.stateful_sets)

    def _advertised(self, nodes: list[Node]) -> list[tuple[Node, list[str]]]:
        """Each node with the pods that its listeners lead to. An address that several pods have leads to none."""
        owners: dict[tuple[str, int], set[str]] = defaultdict(set)
        for name, (pod, _) in self._pods.items():
            for host in pod.host_names:  # 0: whatever the port
                owners[plain_host(host), 0].add(name)
            for host, port in pod.ports_of_node:
                owners[plain_host(host), port].add(name)
        pods_of_nodes = []
        for node in nodes:
            names: set[str] = set()
            is_gone = node.replaced_by is not None and node.state is NodeState.GHOST
            # What answers at the addresses of this ghost is another node, so they may lead to the pod of that one.
            addresses = set[tuple[str, int]]() if is_gone else {(node.host, node.port), *node.listeners}
            for host, port in addresses:
                for key in ((plain_host(host), 0), (plain_host(host), port)):
                    pods = owners.get(key, set())
                    names |= pods if len(pods) == 1 else set()
            pods_of_nodes.append((node, sorted(names)))
        return pods_of_nodes

    def _match(self, node: Node, pod: Pod, owner: StatefulSet) -> None:
        """Judge the only pod that this node advertises, by the second fact."""
        is_flying = self._flying.get(node.id) == pod.name  # it was certain when its restart was decided
        if is_flying or self._is_confirmed(node, pod) or not is_running(pod) or not why_restarted(pod, owner):
            self.certain[node.id] = pod, owner
            return
        if node.proved_at in pod.ips:
            text = f"{node.title} answers at {node.proved_at}, which pod {pod.name} shares with other pods"
            self._refuse((node,), text, "name the port of the listener in the ports of the container")
        elif node.proved_at:
            other = f"pod {pod.name} has other addresses ({first_of(pod.ips)})"
            text = f"{node.title} answers at {node.proved_at}, but {other}"
            remedy = (
                "set bootstrapServers to a listener that leads directly to the pods, in the same Kubernetes cluster"
            )
            self._refuse((node,), text, remedy)
        elif node.unproved is not None and node.unproved.kind is FailureKind.AUTHORIZATION:
            text = f"the operator may not ask {node.title} for its node id, so pod {pod.name} may run another node"
            self.blockers.append(_blocker(Reason.NOT_AUTHORIZED, text, node.unproved.action, (node,)))
        else:
            # All nodes wait for a controller, as it may have to go first; for a broker, those that share partitions.
            text = f"{node.title} has not confirmed its node id at an address of pod {pod.name}"
            remedy = (
                f"see `kubectl logs {pod.name}`, and whether the operator reaches {first_of(pod.ips) or 'the pod'}; if "
                "the node hangs, delete the pod: the operator does not evict one that may run another node"
            )
            if pod.terminating:
                remedy = remedy_while_stopping(pod, self._reading.namespace, self._reading.at, self._node_timeout)
            self.waits.append(PodObstacle(text, remedy, node, Role.CONTROLLER not in node.roles))

    def _is_confirmed(self, node: Node, pod: Pod) -> bool:
        """Tell whether the second fact holds. If several pods share an address, only the node's port tells them
        apart.
        """
        if node.proved_at not in pod.ips:
            return False
        return self._users[node.proved_at] == 1 or (node.proved_at, node.port) in pod.ports_of_node

    def _judge_nodes_without_pod(self, is_due: bool) -> None:
        """Judge nodes whose listeners lead to no pod. While pods are being created or start, the node's pod may be
        among them. A node that does not run is no contradiction as long as no pod needs a restart (`is_due`); but
        with a selector, a pod that is being replaced shows only by such a node.
        """
        creating = any(len(stateful_set.pods) < stateful_set.replicas for stateful_set in self._reading.stateful_sets)
        if self._driver.by_selector:  # how many pods there should be is known by the nodes alone
            creating = len(self._pods) < sum(node.state is NodeState.LIVE for node in self._observation.nodes)
        starting = any(not is_running(pod) for pod, _ in self._pods.values())
        for node in self._without_pod:
            address = f" ({node.host}:{node.port})" if node.host else ", whose address is not known,"
            if node.id in self._flying:  # its next pod has the same name, and is certain even before it runs
                pod, owner = self._pods.get(self._flying[node.id], (None, None))
                if pod is not None and owner is not None and not is_running(pod):
                    self.certain[node.id] = pod, owner
            elif creating or (node.state is not NodeState.LIVE and (starting or self._may_be_replaced(node))):
                remedy = f"see `kubectl describe` of its {self._driver.kind}, and of its pods that do not run"
                if self._driver.by_selector:
                    remedy = f"wait for its next pod; if it has one, {self._driver.remedy_of_unnamed}"
                    if node.state is NodeState.GHOST:
                        remedy += f"; {ghost_remedy((node,), ANY_CLUSTER, self._observation.finalized)}"
                self.waits.append(PodObstacle(f"{node.title}{address} has no pod", remedy, node))
            elif node.state is not NodeState.LIVE and not is_due:
                continue
            elif node.state is not NodeState.GHOST:
                self._refuse(
                    (node,),
                    f"{node.title}{address} is in no pod of {self._driver.place}",
                    self._driver.remedy_of_unnamed,
                )
            elif node.is_voter or Role.BROKER in node.roles:  # nothing depends on any other ghost
                self.blockers.append(self._ghost(node, address))

    def _may_be_replaced(self, node: Node) -> bool:
        """Tell whether another operator may be replacing the pod of this node, which does not run. The controllers that
        are ghosts are no voters, and nothing depends on them.
        """
        return self._driver.by_selector and (node.state is not NodeState.GHOST or Role.BROKER in node.roles)

    def _ghost(self, node: Node, location: str) -> Blocker:
        return Blocker(
            BlockerKind.GHOST_REGISTRATION,
            f"{node.title}{location} is registered, does not run, and has no pod in {self._driver.place}",
            ghost_remedy((node,), ANY_CLUSTER, self._observation.finalized),
            nodes=(node,),
        )

    def _judge_pods_without_node(self, claimed: set[str]) -> None:
        """Judge pods that no node is known to run in. A new node registers once it has started."""
        for name, (pod, owner) in self._pods.items():
            if name in claimed or name in self._flying.values():
                continue
            is_new = pod.created_at is None or self._reading.at - pod.created_at < REGISTERS_WITHIN
            if not pod.ready or is_away(pod) or is_new:
                self.without_node.append(PodWithoutNode(pod, owner))
            else:
                self.blockers.append(
                    _blocker(
                        Reason.INVALID_SPEC,
                        f"pod {name} of {owner.name} is ready, and no node of the cluster advertises it",
                        f"let its node advertise {first_of(pod.host_names)}, or "
                        f"{self._driver.remedy_of_foreign(owner.name)} if it is of another cluster",
                    )
                )

    def _refuse(self, nodes: tuple[Node, ...], text: str, remedy: str = "") -> None:
        remedy = remedy or "let each node advertise the name of its own pod, and unregister nodes that are gone"
        self.blockers.append(_blocker(Reason.INVALID_SPEC, text, remedy, nodes))


# --- blockers by the document and the StatefulSets ---


def _of_document(reading: WorkloadsReading, rollout: Rollout, driver: PodDriver) -> Iterator[Blocker]:
    conditions = driver.conditions()
    for name in reading.missing:
        yield _blocker(
            Reason.INVALID_SPEC,
            f"{driver.kind} {reading.namespace}/{name} not found",
            f"correct {driver.key}, or create it again",
        )
    for stateful_set in reading.stateful_sets:
        if stateful_set.conflict:
            yield _blocker(
                Reason.DRIVER_CONFLICT,
                f"{stateful_set.conflict} restarts the pods of {stateful_set.kind} {stateful_set.name} too, and "
                "neither would wait for the other",
                "take it out of one of the two documents, or set spec.workload.driver to Manual or None",
            )
        yield from conditions.unsafe(stateful_set, reading.namespace)
        if not stateful_set.image:
            yield _blocker(
                Reason.INVALID_SPEC,
                f"{stateful_set.kind} {stateful_set.name} has no container {rollout.container!r}",
                driver.remedy_of_container,
            )


def _of_unprocessed_templates(reading: WorkloadsReading) -> Iterator[PodObstacle]:
    for stateful_set in reading.stateful_sets:
        if not stateful_set.observed and stateful_set.restarts_outdated:
            text = f"Kubernetes has not processed the change of StatefulSet {stateful_set.name} yet"
            yield PodObstacle(text, "if it stays so, look at kube-controller-manager")


def _blocker(reason: Reason, message: str, remedy: str, nodes: tuple[Node, ...] = ()) -> Blocker:
    return Blocker(BlockerKind.WORKLOAD, message, remedy, nodes=nodes, reason=reason)
