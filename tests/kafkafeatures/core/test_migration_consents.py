"""A consent is good for one plan of a migration, and there for each of its steps."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.memory import memory_of
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.znodes import Compared
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core.migrations import Look, a_node, after, approved, cluster, looks, said, wanting
from tests.kafkafeatures.ensembles import CLUSTER
from tests.kafkafeatures.worlds import NOW, known

P, D = Position, Desired
LOSSY = frozenset({"zk-rollback-lossy"})
LACKS = known(Compared(NOW, 99, 1, "ZooKeeper and the metadata log differ: 1 topic", ("topic orders",)))
IN_DUAL_WRITE = replace(cluster(P.DUAL_WRITE), compared=LACKS)
HALF_WAY = replace(cluster(P.DUAL_WRITE, a_node(1, Shape.FLAGGED_BROKER)), compared=LACKS)
COPIED = replace(cluster(P.COPIED), compared=LACKS)


def back(seen: Observation, status: Status, desired: Desired = D.ROLLED_BACK) -> Look:
    """The next look, of any process, with what the status has."""
    memory = memory_of(status, lambda _: NOW - NOW, lambda _: NOW - NOW)
    return looks(wanting(desired, consents=LOSSY), seen, status=status, memory=memory)


def test_one_that_was_used_for_the_first_node_holds_until_the_quorum_is_stopped() -> None:
    first = back(IN_DUAL_WRITE, EMPTY)
    assert isinstance(first.decision, Act)
    status = after(first)
    assert status.spent_consents == ("zk-rollback-lossy",)
    for seen in (IN_DUAL_WRITE, HALF_WAY):
        following = back(seen, status)
        assert isinstance(following.decision, Act)
        status = after(following, status)
    stops = back(COPIED, status)
    assert isinstance(stops.decision, Wait)
    assert "stop the controllers" in said(stops)


def test_one_that_was_used_is_not_good_for_a_second_way_back() -> None:
    status = after(back(IN_DUAL_WRITE, EMPTY))
    turned = back(HALF_WAY, status, D.DUAL_WRITE)  # forward again
    status = after(turned, status)
    again = back(IN_DUAL_WRITE, status)
    assert isinstance(again.decision, Stalled)
    assert again.decision.reason is Reason.CONSENT_SPENT
    assert "remove it from consents, apply the document, then add it again" in said(again)


def test_one_that_was_not_needed_is_not_used_up() -> None:
    status = after(back(cluster(P.DUAL_WRITE), EMPTY))
    assert status.spent_consents == ()


def test_what_a_status_claims_of_another_plan_is_no_consent() -> None:
    migration = MigrationStatus(phase="RollingBack", consents=tuple(LOSSY))
    claimed = Status(cluster_id=CLUSTER, spent_consents=tuple(LOSSY), migration=migration)
    found = back(IN_DUAL_WRITE, claimed)
    assert isinstance(found.decision, Stalled)
    assert found.decision.reason is Reason.CONSENT_SPENT


@pytest.mark.parametrize("consents", [frozenset[str](), frozenset({"zk-finalize"})], ids=["removed", "kept"])
def test_the_consent_to_finalize_is_spent_before_the_first_controller_goes(consents: frozenset[str]) -> None:
    look = approved(cluster(P.DUAL_WRITE))
    assert isinstance(look.decision, Act)
    status = after(look)
    assert status.spent_consents == ("zk-finalize",)
    memory = memory_of(status, lambda _: NOW - NOW, lambda _: NOW - NOW)
    plan = look.proposal.plan.hash
    wanted = replace(look.wanted, consents=consents, approvals=frozenset({plan}))
    following = looks(wanted, cluster(P.DUAL_WRITE), status=status, memory=memory)
    assert isinstance(following.decision, Act) is bool(consents)
