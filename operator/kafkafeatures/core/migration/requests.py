"""Requests to people before the next step of a migration, in words: changes in Git, and restarts by hand.

Pure. Called by `core/migration/state.py`. The operator itself changes no setting, no template and no number of
replicas. Which settings a node lacks follows from its own report.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import MigrationStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Wait
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.migration.demands import NodeDemand
from kafkafeatures.core.migration.edges import START_CONTROLLERS, STOP_CONTROLLERS, UNFLAG_BROKERS, Edge
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.stopped import REACH
from kafkafeatures.core.roll.waits import NODES_A_SECOND
from kafkafeatures.core.words import first_of

MIN_DELAY = 2.0
"""Seconds until the next reconciliation in a small cluster; so short, because once the controllers have stopped, no
partition gets a new leader until the cluster is given back to ZooKeeper.
"""
SEE = "kafkafeatures migration settings shows every line"
"""Advice for people who change the file of a node, of which a request shows only what differs."""
SLOW_STOP = "give it 6 minutes to stop before you kill it"
"""Advice for a broker that still follows controllers that are gone: its shutdown waits for them for 5 minutes
(`KafkaServer.controlledShutdown` of Kafka 3.9).
"""

REMOVE_ZOOKEEPER = "remove both spec.migration and spec.cluster.zookeeper from the document"
"""Advice once the migration is finalized and ZooKeeper can no longer be reached."""


def reached(progress: MigrationProgress, desired: Desired, last_status: MigrationStatus) -> Done:
    """Decision that the cluster is where the document wants it, with advice for the time after."""
    went_back = desired is Desired.ROLLED_BACK and last_status.kept_migration_node
    then = "; before you start the controllers again, wipe their disks" if went_back else ""
    if isinstance(progress.observation.zookeeper, Unknown):
        failure = progress.observation.zookeeper.failure
        then = f"; {failure.location} is no longer needed ({failure.message}): {REMOVE_ZOOKEEPER}"
    return Done(Reason.IN_SYNC, f"the migration is at {progress.phase}{then}")


def wait_for_git(progress: MigrationProgress) -> Wait:
    """Wait for a change in Git, or for the controllers to do their part, as the operator itself has nothing to do."""
    edge = progress.way
    message = "; ".join(_requests_of(progress, edge)) if edge is not None else ""
    if not message:
        to = f": {edge.end_from(progress.position)}" if edge is not None else ""
        return Wait(
            Reason.MIGRATING,
            f"the next position is not reached yet{to}",
            subject=edge.end_from(progress.position) if edge is not None else progress.position,
            remedy="see the log of the active controller for KRaftMigrationDriver; if nodes were just restarted, wait "
            "until each of them has registered",
        )
    # A steady delay while people stop the controllers: ZooKeeper and the log are compared again each time, as no
    # comparison is possible after that.
    delay = max(MIN_DELAY, len(progress.observation.nodes) / NODES_A_SECOND)
    return Wait(
        Reason.WAITING_FOR_GIT,
        message,
        delay=delay,
        steady=edge is STOP_CONTROLLERS,
        subject=edge.end_from(progress.position) if edge is not None else progress.position,
        remedy="make the change in Git and roll it out; where it is there already, see what each node says of itself: "
        "kafkafeatures describe",
    )


def wait_for_person(progress: MigrationProgress, roll_wait: Wait, node_id: int) -> Wait:
    """`roll_wait`, the roll's wait for a person who restarts this node, with the lines of its file that are to be
    changed before; as it is if the migration demands nothing of the node.
    """
    demand = next((node for node in progress.demands.nodes if node.id == node_id), None)
    if demand is None:
        return roll_wait
    title = f"{demand.role.value.lower()} {demand.id}"
    if isinstance(demand.differs, Failure):
        text = f"{title} must be restarted as {demand.shape.value}; it is not known whether it was: {demand.differs}"
        remedy = demand.differs.action
    elif demand.differs:
        slow = f"; {SLOW_STOP}" if progress.way is UNFLAG_BROKERS else ""
        text = remedy = f"restart {title} as {demand.shape.value}: {_lines(demand)}; {SEE}{slow}"
    else:
        text = f"{title} has the settings of {demand.shape.value}, but has not registered again yet"
        remedy = f"see the log of {title}"
    return replace(roll_wait, message=text, subject=title, remedy=remedy)


def _requests_of(progress: MigrationProgress, edge: Edge) -> Iterator[str]:
    """Requests to people on this way; none if the nodes have their settings and nothing else is to be done."""
    if edge is START_CONTROLLERS:
        lines = next(lines for role, _, lines in progress.demands.lines if role is Role.CONTROLLER)
        yield f"start the controllers of the quorum with {', '.join(lines.add)}"
        if progress.facts.has_progress:
            yield f"there is a znode /migration: if they run already, check {REACH}"
    differing = [demand for demand in progress.differing.values() if not isinstance(demand.differs, Failure)]
    if differing and edge.asks is not None:
        yield f"{_titles(differing)} must become {edge.asks.value}: {_lines(differing[0])}; {SEE}"
    for action in edge.further_actions:
        yield f"needed: {action.value}"
    if edge is STOP_CONTROLLERS:  # they may have to start again, if ZooKeeper turns out to lack metadata
        yield "stop all of them without a pause, keep their disks, and start none until that is requested"


def _titles(nodes: list[NodeDemand]) -> str:
    return first_of([f"{node.role.value.lower()} {node.id}" for node in nodes])


def _lines(demand: NodeDemand) -> str:
    return "" if isinstance(demand.differs, Failure) else ", ".join(map(str, demand.differs))
