"""Checks of the quorum: an active controller leads it, each voter answers, and each controller is a voter.

Pure. Called by `core/migration/checks.py`. `flying`: nodes that are being restarted, of which nothing is expected.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known, NodeState, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.edges import HALF_DONE
from kafkafeatures.core.migration.progress import MigrationProgress


def not_led(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for a quorum that no active controller leads, and for voters that are not registered or do not answer.
    While brokers change their mode (`HALF_DONE`), a voter that does not answer blocks nothing if its last registration
    had `zookeeper.metadata.migration.enable`.
    """
    observation = progress.observation
    failure = observation.no_quorum
    if failure is not None:
        yield Blocker(BlockerKind.QUORUM, f"no active controller is known: {failure.message}", failure.action)
        return
    if isinstance(observation.quorum, Unknown):
        yield Blocker(
            BlockerKind.QUORUM,
            f"the quorum is not known: {observation.quorum.failure}",
            observation.quorum.failure.action,
        )
        return
    controllers = [node for node in observation.nodes if Role.CONTROLLER in node.roles]
    live_ids = {node.id for node in controllers if node.state is NodeState.LIVE}
    registered = (
        observation.registered_controllers.value
        if isinstance(observation.registered_controllers, Known)
        else frozenset()
    )
    voters = {voter.id for voter in observation.quorum.value.voters} - flying
    is_half_done = progress.way in HALF_DONE  # a majority leads, and no controller is restarted
    flagged = {node.id for node in controllers if node.registered_flag}
    for id_ in sorted(voters - (live_ids & registered) - (flagged if is_half_done else frozenset())):
        text = "is a voter that does not answer" if id_ in registered else "is a voter that has not registered"
        title = f"controller {id_}"
        yield Blocker(BlockerKind.QUORUM, f"{title} {text}", f"start {title}", about=title)


def not_voting(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for controllers that are no voters. A controller that was formatted with `--no-initial-controllers` and
    never added does not count for the majority. In a quorum that was begun with `--standalone` only one controller
    votes, and Kafka takes over with that one alone.
    """
    if isinstance(progress.observation.quorum, Unknown):
        return  # `not_led` says so
    for node in progress.observation.nodes:
        if (
            Role.CONTROLLER in node.roles
            and node.id not in flying
            and node.state is NodeState.LIVE
            and not node.is_voter
        ):
            text = f"{node.title} runs, but is not a voter of the quorum"
            remedy = f"add it with kafka-metadata-quorum.sh add-controller, run with the settings of {node.title}"
            yield Blocker(BlockerKind.QUORUM, text, remedy, nodes=(node,))
