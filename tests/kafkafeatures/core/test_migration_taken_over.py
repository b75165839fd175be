"""A quorum that does not take over, a copy that does not end, znodes changed by hand, and nodes that are away."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.positions import BrokerMode, ClaimKind, MigrationEvidence, Misplaced, Position
from kafkafeatures.core.migration.settings import Shape
from kraftlog.image import ZkMigrationState
from tests.kafkafeatures.core.migrations import BROKERS, Look, a_node, cluster, looks, message_of, restarted, wanting
from tests.kafkafeatures.ensembles import claimed, elected
from tests.kafkafeatures.worlds import SILENT, known

P, D, S = Position, Desired, ZkMigrationState
FLAGGED, KRAFT = BrokerMode.FLAGGED, BrokerMode.KRAFT
FLAGS: Mapping[int, bool | None] = dict.fromkeys((3001, 3002, 3003), True)
FLAGGED_BROKERS = tuple(a_node(id_, Shape.FLAGGED_BROKER) for id_ in BROKERS)


def with_every_flag() -> Observation:
    return cluster(P.PRE_MIGRATION, *FLAGGED_BROKERS)


def copying() -> Observation:
    observation = with_every_flag()
    assert isinstance(observation.zookeeper, Known)
    return replace(
        observation,
        zookeeper=replace(
            observation.zookeeper, value=replace(observation.zookeeper.value, controller=claimed(3003, epoch=3))
        ),
    )


def wait_for_takeover(observation: Observation) -> Wait:
    decision = looks(wanting(D.DUAL_WRITE), observation).decision
    assert isinstance(decision, Wait), decision
    return decision


def test_a_quorum_that_does_not_take_over_is_reported_with_its_leader_and_the_log_lines_to_look_for() -> None:
    decision = wait_for_takeover(with_every_flag())
    assert "controller 3003 has not taken over yet" in decision.message
    for line in ("controller 3003", "Still waiting for", "CLUSTER_ACTION", "cannot write to ZooKeeper", "RolledBack"):
        assert line in decision.remedy
    led_by_3001 = wait_for_takeover(replace(with_every_flag(), active_controller=known(3001)))
    assert "controller 3001" in led_by_3001.remedy


def test_a_broker_that_the_quorum_misses_is_named_rather_than_the_log_of_the_leader() -> None:
    observation = with_every_flag()
    unregistered = replace(observation, registered_brokers=known(frozenset({1, 3})))
    wait = wait_for_takeover(unregistered)
    assert wait.message.startswith("broker 2 is not registered with the controllers yet")
    assert "Still waiting for" not in wait.remedy
    fenced = (replace(node, state=NodeState.FENCED) if node.id == 2 else node for node in observation.nodes)
    decision = wait_for_takeover(replace(observation, nodes=tuple(fenced)))
    assert (decision.subject, decision.remedy) == ("broker 2", "bring broker 2 back")


def test_a_controller_that_has_not_registered_is_named_rather_than_the_log_of_the_leader() -> None:
    registered = known(frozenset({3001, 3003}))
    decision = wait_for_takeover(replace(with_every_flag(), registered_controllers=registered))
    assert (decision.reason, decision.subject) == (Reason.WAITING_FOR_QUORUM, "controller 3002")
    assert "has not registered" in decision.message
    assert "Still waiting for" not in decision.remedy


def test_a_copy_of_zookeeper_that_does_not_end_is_waited_for_with_the_log_lines_to_look_for() -> None:
    look = None
    for seconds in (2.0, 2.0, 3600.0):
        look = Look(wanting(D.DUAL_WRITE), copying(), before=look, seconds=seconds)
        assert isinstance(look.decision, Wait)
        assert look.decision.subject == "copy of ZooKeeper"
        assert "controller 3003 has taken over, and copies ZooKeeper" in look.decision.message
        for line in ("controller 3003", "NoAuth", "Aborting the metadata migration", "TRACE"):
            assert line in look.decision.remedy


def facts(
    claim: ClaimKind, mode: BrokerMode, offset: int = 409, state: ZkMigrationState | None = S.MIGRATION
) -> MigrationEvidence:
    """Build the evidence of a migration. `claim`: kind of node named in /controller; `mode`: of all brokers; `offset`:
    of /migration, -1 if it is absent or nothing was copied; `state`: in the metadata log, None if that cannot be read.
    """
    return MigrationEvidence(state, claim, offset, dict.fromkeys(BROKERS, mode), FLAGS)


def mode_of_all(evidence: MigrationEvidence) -> str:
    mode = evidence.brokers[1]
    return mode.name if mode is not None else "unknown"


DO_FIRST = "first restart the active controller, with its settings unchanged"


@pytest.mark.parametrize(
    ("changed", "subject", "says", "remedy"),
    [
        (facts(ClaimKind.BROKER, FLAGGED), "/controller", "two controllers at once", DO_FIRST),
        (facts(ClaimKind.BROKER, KRAFT), "/controller", "two controllers at once", DO_FIRST),
        (
            facts(ClaimKind.BROKER, KRAFT, -1),
            "/controller",
            "two controllers at once",
            "do not restart a controller before",
        ),
        (facts(ClaimKind.BROKER, KRAFT, state=None), "/controller", "may still lead", "first start the controllers"),
        (facts(ClaimKind.NONE, FLAGGED), "/controller", "becomes a second controller", "restart the active controller"),
        (facts(ClaimKind.NONE, KRAFT), "/controller", "becomes a second controller", "restart the active controller"),
        (facts(ClaimKind.LEADER, FLAGGED, -1), "/migration", "never takes over", "do not restart a controller before"),
        (facts(ClaimKind.LEADER, KRAFT, -1), "/migration", "never takes over", "create /migration"),
        (facts(ClaimKind.KRAFT, KRAFT, -1), "/migration", "never takes over", "create /migration"),
        (facts(ClaimKind.NONE, KRAFT, -1), "/migration", "never takes over", "create /migration"),
        (
            facts(ClaimKind.BROKER, FLAGGED, -1),
            "disks of the controllers",
            "/migration were deleted",
            "stop the controllers",
        ),
    ],
    ids=lambda value: (
        f"{value.claim.name} in /controller, brokers {mode_of_all(value)}, offset {value.offset}"
        if isinstance(value, MigrationEvidence)
        else ""
    ),
)
def test_a_znode_that_was_deleted_or_changed_by_hand_is_a_contradiction_with_a_remedy(
    changed: MigrationEvidence, subject: str, says: str, remedy: str
) -> None:
    position = position_of(changed)
    assert isinstance(position, Misplaced)
    assert position.subject == subject
    assert says in position.message
    assert remedy in position.remedy


@pytest.mark.parametrize(
    "changed",
    [facts(ClaimKind.BROKER, KRAFT), facts(ClaimKind.NONE, KRAFT), facts(ClaimKind.LEADER, KRAFT, -1)],
    ids=["a broker in /controller", "no /controller", "no copy in /migration"],
)
def test_the_remedy_puts_a_missing_flag_back_before_another_controller_becomes_active(
    changed: MigrationEvidence,
) -> None:
    position = position_of(replace(changed, controllers={**FLAGS, 3002: False}))
    assert isinstance(position, Misplaced)
    assert position.remedy.startswith("first put zookeeper.metadata.migration.enable back on controller 3002")


def test_the_remedy_for_a_broker_that_is_controller_names_the_topics_that_are_lost() -> None:
    """Seen on real nodes: the elected controller deletes topics that only ZooKeeper has, brokers follow the leaders
    that the deposed controller gave them, and no broker registers a second time.
    """
    for changed in (facts(ClaimKind.BROKER, FLAGGED), facts(ClaimKind.BROKER, KRAFT, -1)):
        position = position_of(changed)
        assert isinstance(position, Misplaced)
        assert (
            "topics that were created through the broker since it became the controller are deleted" in position.remedy
        )
        assert "then restart each broker in ZooKeeper mode, one after the other" in position.remedy


def test_the_remedy_for_znodes_that_were_deleted_restarts_each_flagged_broker_with_its_settings_unchanged() -> None:
    position = position_of(facts(ClaimKind.BROKER, FLAGGED, -1))
    assert isinstance(position, Misplaced)
    assert "restart each broker that has the flag, with its settings unchanged" in position.remedy


@pytest.mark.parametrize("desired", [D.PRE_MIGRATION, D.DUAL_WRITE, D.FINALIZED, D.ROLLED_BACK])
def test_two_controllers_at_once_stall_the_migration_for_any_target(desired: Desired) -> None:
    observation = cluster(P.COPIED)
    assert isinstance(observation.zookeeper, Known)
    claimed_by_broker = replace(
        observation.zookeeper, value=replace(observation.zookeeper.value, controller=elected(1))
    )
    look = looks(wanting(desired), replace(observation, zookeeper=claimed_by_broker))
    assert isinstance(look.decision, Stalled)
    assert (look.decision.reason, look.decision.subject) == (Reason.MIGRATION_FAILED, "/controller")
    assert DO_FIRST in message_of(look)


def with_silent_node(observation: Observation, id_: int, *, flag: bool | None) -> Observation:
    """Make a node silent. `flag`: whether it had the flag when it registered; None: not known, as for a broker."""
    return replace(
        observation,
        nodes=tuple(
            replace(node, answer=Unknown(SILENT), state=NodeState.UNREACHABLE, registered_flag=flag)
            if node.id == id_
            else node
            for node in observation.nodes
        ),
    )


@pytest.mark.parametrize("id_", [2, 3002])
@pytest.mark.parametrize("position", [P.COPIED, P.DUAL_WRITE])
def test_a_node_that_is_away_does_not_hide_the_phase_where_its_registration_is_known(
    position: Position, id_: int
) -> None:
    look = None
    for seconds in (2.0, 2.0, 3600.0):
        observation = with_silent_node(cluster(position), id_, flag=True if id_ > 3000 else None)
        look = Look(wanting(D.ROLLED_BACK), observation, before=look, seconds=seconds)
    assert look is not None
    assert not isinstance(look.decision, Stalled), look.decision
    assert "unknown" not in message_of(look)
    if position is P.DUAL_WRITE and id_ == 3002:  # the other two lead the brokers that are moved
        assert restarted(look) in BROKERS
    elif id_ == 2:  # else all controllers are to be stopped
        assert isinstance(look.decision, Wait)
        assert str(id_) in look.decision.subject
        assert str(id_) in look.decision.remedy


def test_a_node_that_is_away_is_not_reported_as_cause_where_no_phase_fits_any_state_of_it() -> None:
    wrong = replace(facts(ClaimKind.BROKER, FLAGGED, state=S.NONE), controllers={3001: None})
    position = position_of(wrong)
    assert isinstance(position, Misplaced)
    assert "the phase cannot be determined" in position.message
    assert "do not answer" not in position.message
