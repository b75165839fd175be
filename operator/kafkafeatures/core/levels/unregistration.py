"""Checks before a registration is removed from the metadata log (UnregisterBroker, UnregisterController): the first
objection, with advice.

Pure. Called by the command `unregister` before it asks a person, and again before it acts. A broker is judged by its
own registration and address, even if another process has its id. The checks are needed because Kafka 4.4 itself refuses
nothing but to unregister the active controller: it would unregister a voter, or a controller that runs, and then raise
levels without regard to that node until it registers anew. A value that could not be read is an objection.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.engine.remedies import before_controllers_can_be_unregistered
from kafkafeatures.core.facts.observation import REPLACED, Known, Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NO_CONNECTION, FailureKind, Role
from kafkafeatures.core.facts.releases import CONTROLLER_UNREGISTRATION, format_level

_NOT_RUNNING = (*NO_CONNECTION, FailureKind.WRONG_CLUSTER, *REPLACED)
"""Kinds of failures that show that the node does not run at its address. With any other kind, it may run."""


def controller_objection(observation: Observation, controller: int) -> str:
    """Objection to unregistering a controller. Empty: it is registered, nothing shows that it runs, and Kafka can
    unregister it.
    """
    if isinstance(observation.cluster_id, Unknown):
        return f"the cluster could not be identified: {observation.cluster_id.failure}"
    registered = observation.registered_controllers
    if isinstance(registered, Unknown):
        return f"the registered controllers could not be read: {registered.failure}"
    node = next((node for node in observation.nodes if node.id == controller and Role.CONTROLLER in node.roles), None)
    if node is None or controller not in registered.value:
        return f"controller {controller} is not registered; list the controllers with describe"
    return next((reason for check in _CHECKS if (reason := check(observation, node))), "")


def broker_objection(node: Node) -> str:
    """Objection to unregistering a broker. Empty: it is registered and fenced, and nothing shows that its process runs
    as a broker.
    """
    if node.state is NodeState.GHOST:
        return ""
    if Role.CONTROLLER not in node.roles or node.state is not NodeState.FENCED:
        rule = "only a broker that is fenced and does not answer can be unregistered"
        return f"{node.title} is {node.state.value.lower()}; {rule}"
    return (
        f"broker {node.id} is fenced, but a process with id {node.id} runs and does not say whether it is a controller "
        "only (process.roles): grant DESCRIBE_CONFIGS on the cluster, and try again; or, if process.roles=controller "
        f"is in its file, use Kafka's own kafka-cluster.sh unregister --id {node.id}"
    )


def _leader_objection(observation: Observation, node: Node) -> str:
    active = observation.active_controller
    if isinstance(active, Unknown):
        return f"the active controller is not known: {active.failure}"
    return f"controller {node.id} is the active controller" if active.value == node.id else ""


def _voter_objection(observation: Observation, node: Node) -> str:
    if isinstance(observation.quorum, Unknown):
        return f"the voters could not be read: {observation.quorum.failure}"
    if not node.is_voter and all(voter.id != node.id for voter in observation.quorum.value.voters):
        return ""
    return (
        f"controller {node.id} is a voter; remove it from the quorum first "
        "(kafka-metadata-quorum.sh remove-controller, or controller.quorum.voters)"
    )


def _answer_objection(_: Observation, node: Node) -> str:
    if isinstance(node.answer, Known):
        return f"controller {node.id} answers at {node.answer.origin}; stop it first"
    if node.answer.failure.kind not in _NOT_RUNNING:
        return f"it is unknown whether controller {node.id} runs: {node.answer.failure}"
    return ""


def _fetch_objection(_: Observation, node: Node) -> str:
    if node.state is NodeState.GHOST:
        return ""
    return (
        f"controller {node.id} was fetching the metadata log seconds ago; stop it first, and try again "
        "when describe shows it as Ghost"
    )


def _level_objection(observation: Observation, node: Node) -> str:
    if isinstance(observation.finalized, Unknown):
        return f"the finalized levels are not known: {observation.finalized.failure}"
    level = observation.finalized.value.get(METADATA_VERSION, 0)
    if level >= CONTROLLER_UNREGISTRATION:
        return ""
    return (
        f"Kafka can unregister a controller once metadata.version "
        f"{format_level(METADATA_VERSION, CONTROLLER_UNREGISTRATION)} is finalized; "
        f"it is {format_level(METADATA_VERSION, level)}; until then " + before_controllers_can_be_unregistered((node,))
    )


_CHECKS: tuple[Callable[[Observation, Node], str], ...] = (
    _leader_objection,
    _voter_objection,
    _answer_objection,
    _fetch_objection,
    _level_objection,
)
"""Checks of a controller, in order. Each returns its objection; empty for none."""
