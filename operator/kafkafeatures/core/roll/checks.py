"""Ordered chains of small pure checks that decide whether one more node may be restarted; the first refusal is
reported.

Called by `core/roll/next_restart.py`, in every reconciliation of a resource whose nodes are restarted. A check that
does not know refuses: missing information never starts a restart. The rules P1 to P8 are defined in
`core/roll/roll.py`; what concerns one node alone is checked in `core/roll/admission.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, title_of, verb
from kafkafeatures.core.engine.costs import topics_and_partitions
from kafkafeatures.core.engine.decisions import PARTITIONS_ARE_NOT_NEEDED, Stalled, Wait, stalled_by, unreadable
from kafkafeatures.core.engine.remedies import ghost_remedy
from kafkafeatures.core.facts.observation import Known, NodeState, Unknown
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.facts.replication import NAMED, format_partitions
from kafkafeatures.core.roll.breaking_clients import clients_survive
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput
from kafkafeatures.core.roll.drivers import RestartScope
from kafkafeatures.core.roll.excuses import MOST_MARKS
from kafkafeatures.core.roll.halts import nothing_is_halted
from kafkafeatures.core.roll.held_levels import binary_holds_levels
from kafkafeatures.core.roll.lagging import cause_among
from kafkafeatures.core.roll.migrations import no_migration_is_open
from kafkafeatures.core.roll.pods_without_node import every_pod_runs_a_node
from kafkafeatures.core.roll.snapshots import snapshots_are_newer
from kafkafeatures.core.roll.waits import unconfirmed, unread, waiting, why_not_running
from kafkafeatures.core.words import counted, first_of

Check = Callable[[RestartCheckInput], Refusal | None]


# --- checks before any restart ---


def driver_allows(inputs: RestartCheckInput) -> Refusal | None:
    """The driver restarts one node at a time, and nothing about its pods has to be repaired first."""
    driver, blockers = inputs.driver, inputs.fleet.blockers
    if driver.reach is not RestartScope.ONE_NODE:
        text = f"driver {driver.name} restarts {driver.reach.value}, but a roll restarts one node after the other"
        remedy = "choose another driver in spec.workload.driver"
        return Stalled(Reason.ROLLOUT_HALTED, f"{text}; {remedy}", subject=f"driver {driver.name}", remedy=remedy)
    if blockers:
        return stalled_by(blockers[0], *blockers)
    return None


# --- checks before one more node is away ---


def pods_are_known(inputs: RestartCheckInput) -> Refusal | None:
    """The node and the revision of each pod are known: one that is not known may be a controller, which goes first."""
    unknown = [wait for wait in inputs.fleet.waits if not wait.is_alone]
    if not unknown:
        return None
    return waiting(inputs) if inputs.in_flight else unconfirmed(inputs, unknown[0])


def quorum_is_known(inputs: RestartCheckInput) -> Refusal | None:
    """The active controller, the quorum and the finalized levels are known: without an active controller, nothing that
    was read of the cluster is current.
    """
    if not inputs.permit.has_quorum:
        return None
    failure = inputs.observation.no_quorum
    if failure is not None:
        return unreadable("no active controller is known", failure, reason=Reason.WAITING_FOR_QUORUM)
    if isinstance(inputs.observation.quorum, Unknown):
        return unreadable(
            "the quorum is not known", inputs.observation.quorum.failure, reason=Reason.WAITING_FOR_QUORUM
        )
    if isinstance(inputs.observation.finalized, Unknown):
        return unreadable("the finalized levels are not known", inputs.observation.finalized.failure)
    return None


def partitions_are_known(inputs: RestartCheckInput) -> Refusal | None:
    """Every partition is known, from the log or from requests. Partitions that an ACL may hide are not known."""
    if isinstance(inputs.observation.partitions, Known):
        return None
    if inputs.observation.partitions.failure.kind is FailureKind.NOT_ASKED:
        return PARTITIONS_ARE_NOT_NEEDED
    return unread(inputs.observation.partitions, "the partitions could not be read")


def promises_can_be_kept(inputs: RestartCheckInput) -> Refusal | None:
    """No partition becomes unavailable whenever its broker restarts, unless the consent single-replica-topics covers
    it.
    """
    nodes = [node for id_ in inputs.fleet.needing for node in inputs.nodes(id_)]
    brokers = [node.id for node in nodes if Role.BROKER in node.roles]
    if (nodes and not brokers) or inputs.replication is None:
        return None
    covers = inputs.excused is not None and (not brokers or any(map(inputs.is_covered, brokers)))
    never = inputs.not_excused if covers else inputs.never_available
    if not never:
        return None
    message = (
        f"{counted(sum(never.values()), 'partition')} cannot stay available while a broker restarts: "
        f"min.insync.replicas requires every replica (topics: {first_of(sorted(never), NAMED)})"
    )
    renewal = f"remove the consent {SINGLE_REPLICA_TOPICS}, apply the document, then add it again"
    is_given, reason = SINGLE_REPLICA_TOPICS in inputs.desired.consents, Reason.CONSENT_SPENT
    if inputs.excused is not None and covers:
        given_for = topics_and_partitions(inputs.excused.topics)
        if not inputs.excused.topics.partitions:
            message += "; when the consent was given, no topic needed it"
        elif inputs.excused.topics.topics > MOST_MARKS:
            message += f"; the consent was given for {given_for}, and these topics have changed since"
        else:
            message += f"; the consent was given for other topics: {given_for}"
        remedy, reason = f"add replicas, or {renewal}", Reason.CONSENT_REQUIRED
    elif is_given:
        remedy = f"the consent was used by an earlier roll: {renewal}"
    else:
        remedy, reason = f"add replicas, or add {SINGLE_REPLICA_TOPICS} to consents", Reason.CONSENT_REQUIRED
    return stalled_by(Blocker(BlockerKind.PARTITION, message, remedy, reason=reason))


def nothing_is_reassigned(inputs: RestartCheckInput) -> Refusal | None:
    """No partition is being reassigned: a reassignment takes up the spare replicas that a restart needs."""
    count, names = inputs.replication.reassigning() if inputs.replication else (0, ())
    if not count:
        return None
    text = (
        f"a reassignment is in progress: {format_partitions(count, names)}; no node is restarted until it is complete"
    )
    remedy = "wait until it is complete; kafka-reassign-partitions.sh --list shows it, and --cancel ends it"
    return Wait(Reason.ROLLING_NODES, text, subject="reassignment", remedy=remedy)


def nothing_is_unavailable(inputs: RestartCheckInput) -> Refusal | None:
    """No partition is already below min.insync.replicas or without a leader, whatever the reason; one that a consent
    excuses may lack one replica.
    """
    if inputs.replication is None:
        return None
    low = inputs.replication.under_min_isr(excused=inputs.is_excused)
    offline = inputs.replication.offline(excused=inputs.is_excused)
    for (count, names), singular, plural in (
        (low, "is below min.insync.replicas", "are below min.insync.replicas"),
        (offline, "has no leader", "have no leader"),
    ):
        if count:
            problem = f"{format_partitions(count, names)} {singular if count == 1 else plural}"
            back = f"; bring {inputs.titles(inputs.gone)} back" if inputs.gone else ""
            text = f"{problem}; no node is restarted until this is resolved{back}{_remedies(inputs)}"
            away = inputs.titles(inputs.gone)
            remedy = f"bring {away} back" if away else "bring the brokers of its other replicas back in sync"
            subject = f"partition {names[0]}" if names else "partitions"
            cause = cause_among(inputs)
            if cause is not None:
                text, remedy = f"{cause.text}; {text}; {cause.remedy}", cause.remedy
                subject = cause.subject
            return Wait(Reason.ROLLING_NODES, text, subject=subject, remedy=remedy)
    return None


def cap_is_kept(inputs: RestartCheckInput) -> Refusal | None:
    """No more nodes are away at once than the document allows, including nodes that are away for other reasons."""
    if not inputs.is_full:
        return None
    if inputs.in_flight:
        return waiting(inputs)
    are = "is" if len(inputs.gone) == 1 else "are"
    gone = inputs.titles(inputs.gone)
    text = f"{gone} {are} unavailable; bring {gone} back: no node is restarted until then"
    ghosts = tuple(node for id_ in inputs.gone for node in inputs.nodes(id_) if node.state is NodeState.GHOST)
    remedy = f"bring {gone} back"
    blockers: tuple[Blocker, ...] = ()
    if ghosts and not inputs.driver.reads_pods:  # where pods are read, they show whether the node comes back
        cure = ghost_remedy(ghosts, inputs.desired.cluster_flags, inputs.observation.finalized)
        text += f"; if {title_of(ghosts)} {verb(ghosts, 'does', 'do')} not exist: {cure}"
        registered = f"{title_of(ghosts)} {verb(ghosts, 'is', 'are')} registered, but fenced, and nothing answers"
        blockers = (Blocker(BlockerKind.GHOST_REGISTRATION, registered, cure, nodes=ghosts),)
        remedy = f"{remedy}; {cure}"
    return Wait(Reason.ROLLING_NODES, text + _remedies(inputs), blockers=blockers, subject=gone, remedy=remedy)


def _remedies(inputs: RestartCheckInput) -> str:
    """Remedies for the first brokers that are away."""
    return "".join(f"; {remedy}" for id_ in inputs.gone[:NAMED] if (remedy := _remedy_of_unavailable(inputs, id_)))


def _remedy_of_unavailable(inputs: RestartCheckInput, id_: int) -> str:
    """Remedy for a broker that is away; empty where its pod is not known, or has time to stop."""
    pod = inputs.fleet.pods.get(id_)
    if pod is None or pod.terminating:
        return inputs.remedy_while_stopping(pod) if pod is not None and inputs.hangs(pod) else ""
    if pod.waiting:
        return (
            f"pod {pod.name} does not run ({why_not_running(pod)}): delete the pod if it does not start again by itself"
        )
    return f"see `kubectl logs {pod.name}`, and delete the pod if it hangs"


FOR_ANY_NODE: tuple[Check, ...] = (
    no_migration_is_open,
    driver_allows,
    binary_holds_levels,  # P7
    clients_survive,  # P8
)
"""Checks before any restart, also that of a stuck node, whose pod cannot run."""

OF_PODS: tuple[Check, ...] = (
    nothing_is_halted,  # P5
    pods_are_known,  # P5
    every_pod_runs_a_node,
)
"""Checks of the pods, which are made even if no node needs a restart."""

FOR_ONE_MORE: tuple[Check, ...] = (
    *OF_PODS,
    quorum_is_known,  # P5
    partitions_are_known,  # P5
    promises_can_be_kept,  # P1
    nothing_is_reassigned,  # P5
    nothing_is_unavailable,  # P5
    cap_is_kept,  # P4
    snapshots_are_newer,  # P7
)
"""Checks before the restart of any node that is not stuck, from top to bottom; made again for a restart that was
decided and may be unsent.
"""


def refusal(chain: tuple[Check, ...], inputs: RestartCheckInput) -> Refusal | None:
    """First refusal of the checks in this chain; None if all allow the restart."""
    return next((refused for check in chain if (refused := check(inputs)) is not None), None)
