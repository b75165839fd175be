"""The consent to restart brokers with single-replica topics: it covers the topics that the plan names, in every roll of
the plan.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Stalled
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import NO_MEMORY
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED
from kafkafeatures.core.kinds import demands_of
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core import ibps, migrations
from tests.kafkafeatures.core.ibps import brokers
from tests.kafkafeatures.core.migrations import (
    PARTITIONS,
    Look,
    a_node,
    cluster,
    looks,
    memory_from,
    message_of,
    restarted,
    status_after_decision,
)
from tests.kafkafeatures.core.replicas import Row, reading, row
from tests.kafkafeatures.worlds import NOW, SILENT

CONSENT = frozenset({"single-replica-topics"})
P, D = Position, Desired
ONE = row("one", 2)
ROLLED_FROM = (P.PRE_MIGRATION, P.COPIED)
"""Positions from which brokers are rolled, each on the way to dual write."""


def hosting(observation: Observation, *more: Row) -> Observation:
    """Add these partitions to those with three replicas."""
    return replace(observation, partitions=Known(reading(*PARTITIONS, *more), SourceKind.METADATA_LOG, "", NOW))


def migrating(
    observation: Observation,
    status: Status = EMPTY,
    desired: Desired = D.DUAL_WRITE,
    consents: frozenset[str] = CONSENT,
) -> Look:
    """Return the decision of any process about a migration, with what the status remembers."""
    return looks(migrations.wanting(desired, consents=consents), observation, status=status, memory=memory_from(status))


def raising(observation: Observation, status: Status = EMPTY, target: str = "3.9", **of_wanted: Any) -> Look:
    wanted = ibps.wanting(target, consents=CONSENT, **of_wanted)
    return Look(wanted, observation, status=status, memory=memory_from(status))


def refused(look: Look, reason: Reason) -> str:
    decision: Decision = look.decision
    assert isinstance(decision, Stalled), decision
    assert decision.reason is reason
    return message_of(look)


def test_every_roll_of_a_migration_plan_needs_the_consent_to_single_replica_topics() -> None:
    observation = hosting(cluster(P.PRE_MIGRATION), ONE)
    assert "add single-replica-topics to consents" in refused(
        migrating(observation, consents=frozenset()), Reason.CONSENT_REQUIRED
    )
    status = EMPTY
    for position in ROLLED_FROM:
        look = migrating(hosting(cluster(position), ONE), status)
        assert restarted(look) in (1, 2, 3)
        status = status_after_decision(look, status)
        assert status.spent_consents == tuple(CONSENT)
        assert status.rollout is not None
        assert status.rollout.excused is not None
        assert status.rollout.excused.names == ("one",)


def test_the_plan_names_the_single_replica_topics_and_its_hash_covers_them() -> None:
    shown = migrating(hosting(cluster(P.PRE_MIGRATION), ONE)).proposal.plan
    assert "1 partition of 1 topic (one) unavailable while a broker restarts" in str(shown)
    status = status_after_decision(migrating(hosting(cluster(P.PRE_MIGRATION), ONE)))
    assert status.plan is not None
    assert status.plan.steps[0].consent == "single-replica-topics"
    none = migrating(hosting(cluster(P.PRE_MIGRATION))).proposal.plan
    with_another_topic = migrating(hosting(cluster(P.PRE_MIGRATION), row("two", 2))).proposal.plan
    assert "unavailable" not in str(none)
    assert len({shown.hash, none.hash, with_another_topic.hash}) == 3


@pytest.mark.parametrize("shown", [(), (ONE,)], ids=["no topic in the plan", "another topic in the plan"])
@pytest.mark.parametrize("position", ROLLED_FROM, ids=str)
def test_a_single_replica_topic_created_after_the_plan_is_a_blocker(shown: tuple[Row, ...], position: Position) -> None:
    first = migrating(hosting(cluster(P.PRE_MIGRATION), *shown))
    later = migrating(hosting(cluster(position), *shown, row("two", 3)), status_after_decision(first))
    assert "topics: two" in refused(later, Reason.CONSENT_REQUIRED)
    assert later.proposal.plan.hash == first.proposal.plan.hash


def test_the_plan_stands_when_a_topic_gets_more_replicas_or_is_deleted() -> None:
    first = migrating(hosting(cluster(P.PRE_MIGRATION), ONE, row("two", 3)))
    fewer = migrating(hosting(cluster(P.COPIED), ONE), status_after_decision(first))
    assert restarted(fewer) in (1, 2, 3)
    assert fewer.proposal.plan.hash == first.proposal.plan.hash


def test_a_rollback_is_another_plan_that_needs_a_new_consent_to_single_replica_topics() -> None:
    half = hosting(cluster(P.DUAL_WRITE, a_node(1, Shape.FLAGGED_BROKER)), ONE)
    status = status_after_decision(migrating(hosting(cluster(P.COPIED), ONE)))
    back = migrating(half, status, D.ROLLED_BACK)
    assert "the consent was used by an earlier roll" in refused(back, Reason.CONSENT_SPENT)
    anew = replace(status_after_decision(back, status), spent_consents=())
    assert restarted(migrating(half, anew, D.ROLLED_BACK)) in (2, 3)


def test_no_further_broker_is_restarted_after_the_consent_was_removed() -> None:
    observation = hosting(cluster(P.PRE_MIGRATION), ONE)
    refused(
        migrating(observation, status_after_decision(migrating(observation)), consents=frozenset()),
        Reason.CONSENT_REQUIRED,
    )


def test_a_used_consent_is_spent_once_the_status_has_lost_its_plan() -> None:
    """An older CRD or a backup may leave a status without the plan: it only says that the consent was used."""
    observation = hosting(cluster(P.PRE_MIGRATION), ONE)
    lost = replace(status_after_decision(migrating(observation)), plan=None)
    refused(migrating(observation, lost), Reason.CONSENT_SPENT)


def test_the_plan_covers_no_topic_while_partitions_are_unknown() -> None:
    blind = replace(cluster(P.PRE_MIGRATION), partitions=Unknown(SILENT))
    look = migrating(blind)
    assert not isinstance(look.decision, Act)
    assert [stage.excused for stage in look.proposal.plan.stages] == [None]
    shown = migrating(hosting(cluster(P.PRE_MIGRATION), ONE), status_after_decision(look))
    assert [stage.excused is not None for stage in shown.proposal.plan.stages] == [True]
    assert shown.proposal.plan.hash != look.proposal.plan.hash


@pytest.mark.parametrize(
    ("wanted", "observation"),
    [(migrations.wanting(D.DUAL_WRITE), cluster(P.ZOOKEEPER)), (ibps.wanting(rollout=ibps.IN_PODS), brokers())],
    ids=["migration", "inter.broker.protocol.version"],
)
def test_partitions_are_read_before_any_restart_so_that_the_plan_names_the_topics(
    wanted: DesiredState, observation: Observation
) -> None:
    def are_read(status: Status, consents: frozenset[str] = CONSENT) -> bool:
        return demands_of(
            ReadContext(replace(wanted, consents=consents), status, NOT_ASKED, NOW, observation)
        ).partitions

    assert are_read(EMPTY)
    assert not are_read(EMPTY, frozenset())
    look = Look(replace(wanted, consents=CONSENT), hosting(observation, ONE), memory=NO_MEMORY)
    assert not are_read(status_after_decision(look))


def test_the_consent_covers_every_roll_to_another_inter_broker_protocol_version() -> None:
    pins = hosting(brokers(uses=None, knows="3.8-IV0"), ONE)
    exchanges = hosting(brokers(uses="3.8", knows="3.8-IV0"), ONE)
    raises = hosting(brokers(uses="3.8"), ONE)
    status = EMPTY
    for raised in (pins, exchanges, raises):
        look = raising(raised, status)
        assert restarted(look) == 2
        status = status_after_decision(look, status)
        assert status.spent_consents == tuple(CONSENT)
    assert "topics: two" in refused(raising(hosting(raises, ONE, row("two", 3)), status), Reason.CONSENT_REQUIRED)
    refused(raising(raises, status, "3.9-IV0"), Reason.CONSENT_SPENT)


def test_the_consent_covers_the_roll_of_an_image_where_every_broker_uses_the_protocol_version() -> None:
    observation = hosting(ibps.in_pods(brokers(uses="3.9"), outdated=(1, 2, 3)), ONE)
    look = raising(observation, rollout=ibps.IN_PODS)
    assert restarted(look) == 2
    assert "(one) unavailable while a broker restarts" in str(look.proposal.plan)
    fewer = hosting(ibps.in_pods(brokers(uses="3.9"), outdated=(1, 3)), ONE)
    following = raising(fewer, status_after_decision(look), rollout=ibps.IN_PODS)
    assert restarted(following) == 3
    assert following.proposal.plan.hash == look.proposal.plan.hash
    later = hosting(fewer, ONE, row("two", 3))
    assert "topics: two" in refused(
        raising(later, status_after_decision(look), rollout=ibps.IN_PODS), Reason.CONSENT_REQUIRED
    )
