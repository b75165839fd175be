"""A cluster that the status does not know yet: a consent in the document may have been used before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Done, Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from tests.kafkafeatures.reconcile.accounts import (
    CONSENT,
    CONSENTS,
    DOWN,
    UP,
    approve,
    held_reason,
    stalled,
)
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, run
from tests.simulated.orders import KEY, Orders


@pytest.mark.parametrize("policy", ApprovalPolicy)
def test_at_a_first_contact_a_downgrade_needs_an_approval_by_hash_under_every_policy(policy: ApprovalPolicy) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = DesiredState(DOWN, consents=CONSENTS, policy=policy)
    last = run(cluster, store)
    assert held_reason(last) is Reason.PLAN_PENDING
    assert isinstance(last.decision, Held)
    assert store.status["unverifiedConsents"] == [CONSENT]
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING  # the second reconciliation still knows it
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_a_consent_at_the_first_contact_is_reported_as_possibly_used() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = DesiredState(DOWN, consents=CONSENTS)
    last = run(cluster, store)
    assert isinstance(last.decision, Held)
    doubt = "; it is unknown whether consent 'group.version:1->0' was already used: it is older than the status"
    assert last.decision.message.endswith(doubt)


def test_a_consent_added_after_the_first_contact_counts() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    store.wanted = DesiredState(DOWN)
    assert stalled(run(cluster, store)) is Reason.CONSENT_REQUIRED
    store.wanted = DesiredState(DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_consent_of_the_first_contact_counts_after_it_was_removed_and_added_again() -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {}, met=False)
    for consents in (CONSENTS, frozenset[str]()):
        store.wanted = DesiredState(DOWN, consents=consents)
        run(cluster, store)
    assert store.status["unverifiedConsents"] == []
    store.wanted = DesiredState(DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_raise_at_the_first_contact_needs_no_approval_by_hash() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {}, met=False)
    store.wanted = DesiredState(UP, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)


def replaced(api: Orders) -> None:
    spec = api.spec
    api.server.delete(*KEY)
    api.create(**spec)


STATUS_LOSSES: dict[str, Callable[[Orders], object]] = {
    "lost": lambda api: api.server.edit_status(*KEY, lambda manifest: manifest.pop("status")),
    "replaced by force": replaced,
}


@pytest.mark.parametrize("how", STATUS_LOSSES)
async def test_a_resource_whose_status_is_gone_does_not_use_its_consent_a_second_time(how: str) -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 27, **UP})).met()
    levels = {"levels": [{"name": "group.version", "level": 0}]}
    rig.api.edit(features=levels, consents=[CONSENT], approval={"policy": "Never"})
    for _ in range(4):
        await rig.work()
    assert len(rig.kafka.sent) == 1
    assert rig.kafka.move("group.version", 1)
    STATUS_LOSSES[how](rig.api)
    for operator in (rig, Rig(rig.api, rig.kafka)):  # the same process, then another one
        for _ in range(4):
            await operator.work()
        assert rig.api.condition("ApprovalRequired")["reason"] == "PlanPending"
    assert len(rig.kafka.sent) == 1
