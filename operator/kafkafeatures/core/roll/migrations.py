"""Check that the cluster is not in the middle of a migration from ZooKeeper, in which no node may be restarted.

Pure. The first of the checks of `core/roll/checks.py`. Restarts in the middle of a migration are left to the
migration's own stage, which has a permit, for three reasons. The first controller that starts without
`zookeeper.metadata.migration.enable` finalizes the migration, which is irreversible. A broker that is restarted with
another template enters the next phase. And until the metadata are copied, the metadata log has no partitions, so that
every broker would seem free to be restarted.

The metadata log shows whether a migration is open. Without the log, the answer of a controller shows it, and nodes of
4.0 and newer know no migrations. Answers of older brokers prove nothing: in KRaft mode they are the same during the
dual write as after it.
"""

from __future__ import annotations

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Wait, stalled_by, waits_on
from kafkafeatures.core.facts.observation import Known, MetadataMode, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import WITHOUT_ZOOKEEPER
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput

_BY_HAND = "finalize the migration or roll it back; until then restart nodes by hand, in the order of the migration"


def no_migration_is_open(inputs: RestartCheckInput) -> Refusal | None:
    """The cluster is certainly in KRaft mode, and no node is still registered as part of a migration."""
    if inputs.permit.is_granted:
        return None  # the stage of the migration has made its own checks
    observation = inputs.observation
    if isinstance(observation.mode, Unknown):
        return _wait(f"the metadata mode is not known: {observation.mode.failure}", "make the controllers reachable")
    if observation.mode.value is MetadataMode.ZOOKEEPER:
        text, remedy = (
            "no node is restarted in ZooKeeper mode",
            "restart nodes by hand, set spec.interBrokerProtocolVersion, or migrate to KRaft first",
        )
        return stalled_by(Blocker(BlockerKind.ZOOKEEPER_MODE, text, remedy))
    if observation.mode.value is MetadataMode.MIGRATING:
        return _wait("a migration from ZooKeeper is in progress", _BY_HAND)
    migrating = [node.id for node in observation.nodes if node.migrating_from_zookeeper]
    if migrating:
        text = f"still registered as part of a migration from ZooKeeper: {inputs.titles(migrating)}"
        return _wait(text, _BY_HAND)
    if not _is_certain(observation):
        text = "no controller answers, so a migration from ZooKeeper may be in progress"
        return _wait(text, "make the controllers reachable; if the cluster was never migrated, restart nodes by hand")
    return None


def _is_certain(observation: Observation) -> bool:
    """Tell whether the readings can prove that no migration is open: by the log, a controller, or a release 4.0+."""
    if observation.source.kind is SourceKind.METADATA_LOG:
        return True
    answers = [(node, node.answer.value) for node in observation.nodes if isinstance(node.answer, Known)]
    return any(
        Role.CONTROLLER in node.roles or WITHOUT_ZOOKEEPER in answer.supported.get(METADATA_VERSION, ())
        for node, answer in answers
    )


def _wait(reason: str, remedy: str) -> Wait:
    blocker = Blocker(BlockerKind.MIGRATION, f"no node is restarted: {reason}", remedy)
    return waits_on(blocker, Reason.MIGRATING, delay=5.0)
