"""The next step towards another inter.broker.protocol.version (IBP), and the blockers to it.

Three brokers in ZooKeeper mode, 1 is the controller. `brokers(uses="3.8", knows="3.9-IV0")`: their files set 3.8, and
the newest IBP of their Kafka is 3.9-IV0; `broker(2, ...)`: another one. The document wants 3.9.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, RolloutStatus, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, Mode, Rollout
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.observation import Known, MetadataMode, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.facts.znodes import of_another_cluster
from kafkafeatures.core.kinds import demands_of
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.fleets import requested
from tests.kafkafeatures.core.ibps import IN_PODS, broker, brokers, in_pods, wanting
from tests.kafkafeatures.core.migrations import Look, a_node, cluster, looks, message_of, restarted
from tests.kafkafeatures.core.plans import standing
from tests.kafkafeatures.core.replicas import reading, row
from tests.kafkafeatures.ensembles import CLUSTER, claimed, progress
from tests.kafkafeatures.worlds import NOW, SILENT, known

P = Position


def refused(look: Look, reason: Reason) -> str:
    """Return the message and remedies of a decision that sends nothing."""
    assert not isinstance(look.decision, Act), look.decision
    assert look.decision.reason is reason, look.decision
    return "\n".join([look.decision.message, *map(str, look.decision.blockers)])


def requested_restart(id_: int) -> RestartInFlight:
    """Build a restart that a person was asked for and has not made: the znode of the broker is unchanged."""
    step = RestartNode(id_, f"broker {id_}", earlier_support="", czxid=100 + id_)
    return RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)


def with_znodes(observation: Observation, **parts: Any) -> Observation:
    assert isinstance(observation.zookeeper, Known)
    value = replace(observation.zookeeper.value, **parts)
    return replace(observation, zookeeper=replace(observation.zookeeper, value=value))


# --- the order: the version in use is set, then Kafka is upgraded on all brokers, then the version is raised ---


def test_a_cluster_whose_brokers_all_use_the_wanted_ibp_is_in_sync() -> None:
    decision = Look(wanting(), brokers(uses="3.9-IV0")).decision
    assert isinstance(decision, Done)
    assert f"every broker uses {IBP} 3.9-IV0" in decision.message


def test_the_broker_that_is_controller_is_restarted_last() -> None:
    assert restarted(Look(wanting(), brokers())) == 2
    assert restarted(Look(wanting(), brokers(broker(2, "3.9")))) == 3
    assert restarted(Look(wanting(), brokers(broker(2, "3.9"), broker(3, "3.9")))) == 1


def test_a_person_is_asked_for_the_line_that_the_broker_needs() -> None:
    message = refused(Look(wanting(), brokers(), sent=(requested_restart(2),)), Reason.ROLLING_NODES)
    assert message == f"restart broker 2 with the same Kafka, and {IBP}=3.9; it is 3.8"


def test_without_a_driver_the_ibp_has_to_be_set_in_git() -> None:
    message = refused(Look(wanting(rollout=Rollout()), brokers()), Reason.WAITING_FOR_GIT)
    assert f"set {IBP}=3.9 in Git, for 3 brokers (1-3)" in message


def test_the_restart_that_a_person_is_asked_for_is_seen_by_the_brokers_znode() -> None:
    """A broker in ZooKeeper mode has no epoch: a new process of it has a new znode, and nothing else shows it."""
    decision = Look(wanting(), brokers()).decision
    assert isinstance(decision, Act)
    assert isinstance(decision.step, RestartNode)
    sent = RestartInFlight(decision.step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    waiting = Look(wanting(), brokers(), sent=(sent,))
    assert refused(waiting, Reason.ROLLING_NODES).startswith("restart broker 2 with the same Kafka")
    came_back = brokers(broker(2, "3.9", czxid=900))
    assert "broker 2 is in sync" in refused(Look(wanting(), came_back, sent=(sent,)), Reason.ROLLING_NODES)


@pytest.mark.parametrize("target", ["3.8", "3.9"])
def test_an_unset_ibp_is_first_set_to_the_version_in_use_and_no_image_is_rolled(target: str) -> None:
    observation = brokers(uses=None, knows="3.8-IV0")
    message = refused(Look(wanting(target, rollout=Rollout()), observation), Reason.WAITING_FOR_GIT)
    assert "no image is rolled" in message
    assert f"set {IBP}=3.8-IV0 in Git" in message
    by_hand = refused(Look(wanting(target), observation, sent=(requested_restart(2),)), Reason.ROLLING_NODES)
    assert f"restart broker 2 with the same Kafka, and {IBP}=3.8-IV0" in by_hand


def test_a_broker_with_an_unset_ibp_comes_before_every_newer_kafka() -> None:
    observation = brokers(broker(3, None, "3.8-IV0"), uses="3.8", knows="3.8-IV0")
    assert restarted(Look(wanting(), observation)) == 3


def test_brokers_that_do_not_know_the_wanted_ibp_get_a_newer_kafka_first_and_keep_their_ibp() -> None:
    observation = brokers(broker(1, "3.8", "3.9-IV0"), uses="3.8", knows="3.8-IV0")
    assert restarted(Look(wanting(), observation)) == 2
    message = refused(Look(wanting(), observation, sent=(requested_restart(2),)), Reason.ROLLING_NODES)
    assert "restart broker 2 with Kafka 3.9" in message
    assert f"still {IBP}=3.8" in message
    assert "image of Kafka 3.9" in refused(Look(wanting(rollout=Rollout()), observation), Reason.WAITING_FOR_GIT)


def test_the_ibp_is_raised_only_once_all_brokers_know_the_version() -> None:
    observation = brokers(broker(2, "3.8", "3.8-IV0"))
    assert restarted(Look(wanting(), observation)) == 2
    assert "3.9" not in [line.split("=")[-1] for line in Look(wanting(), observation).proposal.plan.work[0].remaining]


def test_the_next_roll_waits_for_the_last_broker_of_the_current_roll() -> None:
    """While a broker is away it is not known whether its Kafka knows the version."""
    away = replace(broker(2, "3.8", "3.8-IV0"), answer=Unknown(SILENT), proved_at="", settings={})
    step = RestartNode(2, "broker 2", earlier_support="", broker_epoch=90)
    flying = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    look = Look(wanting(), brokers(away), sent=(flying,))
    assert not isinstance(look.decision, Act)


def test_the_roll_stays_the_same_until_its_last_broker_is_back() -> None:
    first = Look(wanting(), brokers())
    begun = report(first).rollout
    assert begun is not None
    step = RestartNode(1, "broker 1", earlier_support="", broker_epoch=90)
    flying = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    last = Look(wanting(), brokers(uses="3.9"), sent=(flying,), status=Status(rollout=begun))
    after = report(last, Status(rollout=begun)).rollout
    assert after is not None
    assert (after.id, after.started_at) == (begun.id, begun.started_at)


def report(look: Look, previous: Status = EMPTY) -> Status:
    """Return the status with the reports of all stages."""
    status = EMPTY
    for stage in look.stages:
        status = stage.reported(look.decision, status, previous)
    return status


# --- blockers ---


@pytest.mark.parametrize("uses", ["3.9", "3.8-IV0"])
def test_the_ibp_is_never_lowered(uses: str) -> None:
    message = refused(Look(wanting("3.7"), brokers(broker(2, uses), uses="3.7")), Reason.DOWNGRADE_REFUSED)
    assert f"broker 2 uses {IBP} {uses}, and 3.7 would be a downgrade" in message
    assert f"set spec.interBrokerProtocolVersion to {uses} or higher" in message


@pytest.mark.parametrize(
    ("raised", "by"), [("3.9", ""), (None, "the default of its Kafka")], ids=["by its file", "by its Kafka's default"]
)
def test_a_broker_raised_to_an_ibp_that_other_brokers_do_not_know_stalls_the_raise(raised: str | None, by: str) -> None:
    """Brokers 1 and 3 run Kafka 3.8. The template changed image and version at once, or did not set the version."""
    observation = brokers(broker(2, raised, "3.9-IV0"), uses="3.8", knows="3.8-IV0")
    message = refused(Look(wanting(), observation), Reason.TEMPLATE_AHEAD)
    assert "broker 2 uses" in message
    assert by in message
    assert f"set {IBP}=3.8-IV0 on broker 2 in Git, and restart it" in message


def test_a_broker_that_does_not_report_its_ibp_blocks_the_raise() -> None:
    silent = replace(broker(3), proved_at="", settings={})
    message = refused(Look(wanting(), brokers(silent)), Reason.WAITING_FOR_NODES)
    assert f"the {IBP} of broker 3 is not known" in message
    assert "DESCRIBE_CONFIGS" in message


def test_a_broker_that_gives_no_version_is_waited_for() -> None:
    for uses in ("later", None):
        unclear = broker(3, uses, "whatever")
        assert "does not say which" in refused(Look(wanting(), brokers(unclear)), Reason.WAITING_FOR_NODES)


def test_a_broker_that_only_zookeeper_knows_is_waited_for() -> None:
    observation = brokers()
    observation = replace(observation, nodes=tuple(node for node in observation.nodes if node.id != 3))
    message = refused(Look(wanting(), observation), Reason.WAITING_FOR_NODES)
    assert "broker 3 is registered in ZooKeeper, but its address is not known" in message


@pytest.mark.parametrize("knows", ["3.8-IV0", "3.9-IV0"])
def test_the_ibp_is_not_raised_past_a_broker_that_has_replicas_and_is_down(knows: str) -> None:
    """Broker 4 is down. While the other brokers only get a newer Kafka (they know 3.8-IV0), that does not matter."""
    partitions = reading(row("orders", 1, 2, 3, 4, isr=(1, 2, 3)), default=1)
    observation = replace(brokers(knows=knows), partitions=known(partitions, SourceKind.API_REQUESTS))
    message = message_of(looks(wanting(), observation))
    assert ("broker 4 has replicas but is not registered" in message) is (knows == "3.9-IV0")
    assert ("start broker 4, or move its replicas to other brokers" in message) is (knows == "3.9-IV0")


def test_an_ensemble_that_cannot_be_read_is_waited_for() -> None:
    refusal = Failure(FailureKind.UNREACHABLE, "zk:2181", "connection refused")
    observation = replace(brokers(), zookeeper=Unknown(refusal))
    message = refused(Look(wanting(), observation), Reason.WAITING_FOR_NODES)
    assert "ZooKeeper could not be read: connection refused" in message


@pytest.mark.parametrize("other_id", ["another", None])
def test_the_ensemble_of_another_cluster_is_refused(other_id: str | None) -> None:
    other = of_another_cluster(other_id, "zk:2181/b", CLUSTER)
    assert other is not None
    observation = replace(brokers(), zookeeper=Unknown(other))
    message = refused(Look(wanting(), observation), Reason.CLUSTER_ID_MISMATCH)
    assert "set the ensemble and chroot of the brokers' zookeeper.connect" in message


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE])
def test_the_ibp_is_not_raised_while_a_migration_is_open(position: Position) -> None:
    message = refused(Look(wanting(), cluster(position)), Reason.MIGRATING)
    assert "a migration from ZooKeeper is open" in message


def test_a_broker_with_the_flag_shows_a_migration() -> None:
    observation = brokers(replace(a_node(2, Shape.FLAGGED_BROKER), settings=broker(2).settings))
    assert "a migration from ZooKeeper is open" in refused(Look(wanting(), observation), Reason.MIGRATING)


def test_a_znode_of_a_migration_whose_controllers_are_not_known_prevents_the_raise() -> None:
    message = refused(Look(wanting(), with_znodes(brokers(), migration=progress(-1))), Reason.MIGRATING)
    assert "spec.cluster.bootstrapControllers" in message


def test_a_quorum_claim_without_a_readable_log_leaves_it_unknown_if_a_migration_is_open() -> None:
    observation = with_znodes(brokers(), controller=claimed())
    waiting = refused(Look(wanting(), observation), Reason.WAITING_FOR_NODES)
    assert "the znode /controller names a controller of a KRaft quorum" in waiting
    assert "bootstrapControllers" in waiting
    message = refused(Look(wanting(), with_znodes(brokers(), controller=None)), Reason.WAITING_FOR_NODES)
    assert "it is not known whether a migration is open" in message


def test_a_mode_that_is_not_known_is_waited_for() -> None:
    observation = replace(brokers(), mode=Unknown(SILENT))
    assert "the metadata mode is not known" in refused(Look(wanting(), observation), Reason.PREFLIGHT)


def test_in_kraft_mode_the_ibp_is_reported_as_meaningless_and_refuses_nothing() -> None:
    observation = cluster(P.FINALIZED)
    assert observation.mode == known(MetadataMode.KRAFT)
    look = Look(wanting("3.8"), replace(observation, zookeeper=Unknown(NOT_ASKED)))
    assert isinstance(look.decision, Done)
    assert "has no meaning in KRaft mode" in look.decision.message
    assert look.proposal.plan.is_over
    assert report(look).inter_broker_protocol_version == ""


# --- pods ---


def test_a_pod_is_restarted_once_its_template_was_changed() -> None:
    wanted = wanting(rollout=IN_PODS)
    message = refused(Look(wanted, in_pods(brokers())), Reason.WAITING_FOR_GIT)
    assert "set inter.broker.protocol.version=3.9 in Git" in message
    assert restarted(Look(wanted, in_pods(brokers(), outdated=(1, 2, 3)))) == 2


def test_a_request_to_restart_a_single_pod_changes_nothing_during_a_raise_of_the_ibp() -> None:
    wanted = wanting(rollout=IN_PODS)
    for observation in (in_pods(brokers()), in_pods(brokers(), outdated=(1, 3)), in_pods(brokers(uses="3.9"))):
        with_request, without = Look(wanted, requested(observation, "broker-2")), Look(wanted, observation)
        assert (with_request.decision, with_request.proposal.plan) == (without.decision, without.proposal.plan)


def test_a_template_that_did_not_help_the_first_broker_gets_no_second_one() -> None:
    observation = in_pods(brokers(), outdated=(1, 3))
    message = refused(Look(wanting(rollout=IN_PODS), observation), Reason.ROLLOUT_HALTED)
    assert f"broker 2 was restarted with the template of broker, and needs the same Kafka, and {IBP}=3.9" in message


@pytest.mark.parametrize("release", ["3.9", ""])
def test_no_image_is_rolled_while_the_ibp_is_not_set(release: str) -> None:
    observation = in_pods(brokers(uses=None, knows="3.8-IV0"), outdated=(1, 2, 3), release=release)
    message = refused(Look(wanting(rollout=IN_PODS), observation), Reason.TEMPLATE_AHEAD)
    assert "keep the image of Kafka 3.8 in Git" in message


def test_the_setting_alone_is_rolled_while_the_ibp_is_not_set() -> None:
    observation = in_pods(brokers(uses=None, knows="3.8-IV0"), outdated=(1, 2, 3), release="3.8")
    assert restarted(Look(wanting("3.8", rollout=IN_PODS), observation)) == 2


def test_an_image_is_rolled_once_every_broker_uses_the_wanted_ibp() -> None:
    """From 3.9.1 to 3.9.2: the version is set, so the new Kafka does not raise it."""
    observation = in_pods(brokers(uses="3.8"), outdated=(1, 2, 3))
    assert restarted(Look(wanting("3.8", rollout=IN_PODS), observation)) == 2


# --- plan, approval and status ---


def test_the_plan_names_each_roll_and_only_the_last_one_is_irreversible() -> None:
    look = Look(wanting(), brokers(uses=None, knows="3.8-IV0"))
    (work,) = look.proposal.plan.work
    steps = work.steps
    assert [step.reversible for step in steps] == [True, True, False]
    assert [IBP in step.detail for step in steps] == [True, True, True]
    assert look.proposal.plan.irreversible
    assert str(look.proposal.plan) == f"{IBP} 3.8-IV0 -> 3.9"


def test_a_plan_stands_while_brokers_are_restarted_and_not_for_another_version_or_none() -> None:
    first = Look(wanting(), brokers()).proposal.plan
    memory = Memory(plan=standing(first))
    assert Look(wanting(), brokers(broker(2, "3.9")), memory=memory).proposal.plan.hash == first.hash
    for wanted, observation in (("3.8", brokers(uses="3.7")), ("", brokers()), ("3.9", cluster(P.FINALIZED))):
        assert Look(wanting(wanted), observation, memory=memory).proposal.plan.hash != first.hash


def test_every_plan_waits_for_an_approval_where_the_policy_says_so() -> None:
    look = Look(wanting(policy=ApprovalPolicy.ALWAYS), brokers())
    assert isinstance(look.decision, Held)
    assert look.decision.reason is Reason.APPROVAL_REQUIRED


def test_in_observe_mode_the_plan_of_the_ibp_is_reported_and_not_carried_out() -> None:
    decision = Look(wanting(mode=Mode.OBSERVE), brokers()).decision
    assert isinstance(decision, Done)
    assert decision.message == f"would raise {IBP} to 3.9"


def test_the_status_has_the_ibp_that_each_broker_uses() -> None:
    assert report(Look(wanting(), brokers())).inter_broker_protocol_version == "3.8"
    mixed = brokers(broker(2, "3.9"), broker(3, None, "3.9-IV0"))
    used = report(Look(wanting(), mixed)).inter_broker_protocol_version
    assert used == "3.8 (broker 1), 3.9 (broker 2), 3.9-IV0 by default (broker 3)"


def test_the_status_keeps_the_last_known_ibp_while_brokers_are_silent() -> None:
    silent = [replace(broker(id_), proved_at="", settings={}) for id_ in (1, 2, 3)]
    before = Status(inter_broker_protocol_version="3.8")
    assert report(Look(wanting(), brokers(*silent)), before).inter_broker_protocol_version == "3.8"


def test_the_roll_is_over_once_every_broker_uses_the_wanted_ibp() -> None:
    before = Status(rollout=RolloutStatus(id="one", total=3, done=2, waiting_for="broker 3"))
    look = Look(wanting(), brokers(uses="3.9"))
    rollout = report(look, before).rollout
    assert rollout is not None
    assert not rollout.is_in_progress
    rolled = [stage.conditions(look.decision).get(Condition.NODES_ROLLED) for stage in look.stages]
    assert ("True", Reason.ALL_CURRENT, f"all 3 brokers use {IBP} 3.9") in rolled


def test_a_restart_that_is_over_is_not_shown_as_waited_for_while_git_has_to_change_something() -> None:
    at = Stamp("2026-01-02T03:00:00Z")
    before = Status(rollout=RolloutStatus(id="one", total=3, done=2, waiting_for="broker 3", waiting_since=at))
    rollout = report(Look(wanting(), brokers()), before).rollout
    assert rollout is not None
    assert not rollout.waiting_for


# --- readings that are requested ---


def test_znodes_and_settings_are_read_and_partitions_before_a_restart() -> None:
    first = ReadContext(wanting(), EMPTY, NOT_ASKED, NOW)
    assert demands_of(first).znodes
    assert IBP in demands_of(first).settings
    assert not demands_of(first).partitions
    assert demands_of(replace(first, observation=brokers())).partitions
    assert not demands_of(replace(first, observation=brokers(uses="3.9"))).partitions


def test_in_kraft_mode_nothing_is_read_for_the_ibp() -> None:
    later = ReadContext(wanting(), Status(metadata_mode="KRaft"), NOT_ASKED, NOW)
    assert not demands_of(later).znodes
    assert not demands_of(replace(later, observation=cluster(P.FINALIZED))).znodes


def test_a_blocker_of_one_broker_names_it() -> None:
    look = Look(wanting("3.7"), brokers(broker(2, "3.9"), uses="3.7"))
    (blocker,) = look.decision.blockers
    assert blocker.kind is BlockerKind.DOWNGRADE
    assert [node.id for node in blocker.nodes] == [2]
