"""The owner of a cluster: the oldest resource in mode Apply, by creation time and uid. The second argument of
`resource` is its creation time; `note`: a watch or a read shows the resource; `acts`: it sends a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.status import Via
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.roll.drivers import STRIMZI
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.claims import SENT_DIRECTLY_FOR, SENT_FOR, Claims

NEW_ACTS = Owner("ns/new", owns_cluster=False, is_acting=True)


def resource(name: str, age: str, *, mode: str = "Apply", cluster: str = "", uid: str = "") -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "creationTimestamp": age}
    status = {"clusterId": cluster} if cluster else {}
    return {"metadata": metadata, "spec": {"mode": mode}, "status": status}


def with_a_step(resource: dict[str, Any]) -> dict[str, Any]:
    return {**resource, "status": {**resource["status"], "intents": [{"kind": "RestartNode"}]}}


def claims(*resources: dict[str, Any], monotonic: Callable[[], float] = SYSTEM.monotonic) -> Claims:
    made = Claims(monotonic)
    for resource in resources:
        made.note(resource)
    return made


def key(name: str) -> ResourceKey:
    return ResourceKey("ns", name)


def test_the_older_of_two_resources_owns_the_cluster() -> None:
    made = claims(resource("old", "2026-01-01", cluster="c"), resource("new", "2026-01-02", cluster="c"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=True)
    assert made.competing_owner(key("old"), "c") is None


def test_the_smaller_uid_is_the_older_of_two_resources_created_in_the_same_second() -> None:
    made = claims(resource("a", "1", cluster="c", uid="2"), resource("b", "1", cluster="c", uid="1"))
    assert made.competing_owner(key("a"), "c") == Owner("ns/b", owns_cluster=True)
    assert made.competing_owner(key("b"), "c") is None


def test_a_resource_in_mode_observe_owns_no_cluster() -> None:
    made = claims(resource("old", "1", cluster="c", mode="Observe"), resource("new", "2", cluster="c"))
    assert made.competing_owner(key("new"), "c") is None


def test_an_older_resource_may_own_the_cluster_until_its_first_reconciliation() -> None:
    made = claims(resource("old", "1"), resource("new", "2", cluster="c"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False)
    made.reconciled(key("old"))
    assert made.competing_owner(key("new"), "c") is None
    made.note(resource("old", "1", cluster="c"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=True)


def test_a_resource_owns_the_cluster_that_it_read_even_if_its_reconciliation_fails() -> None:
    made = claims(resource("old", "1"), resource("new", "2", cluster="c"))
    assert made.competing_owner(key("old"), "c") is None  # it acts
    made.reconciled(key("old"))  # and its reconciliation fails
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=True)
    made.note(resource("old", "1"))  # an event from before
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=True)


def test_no_resource_acts_on_a_cluster_while_another_resource_has_an_open_step_there() -> None:
    made = claims(resource("old", "1", cluster="c"), resource("new", "2", cluster="c"))
    made.acts(key("new"))
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=True)
    made.note(resource("new", "2", cluster="c"))  # a watch that is behind
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    sent = with_a_step(resource("new", "2", cluster="c"))
    made.note(sent, was_read=True)
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    assert claims(resource("old", "1", cluster="c"), sent).competing_owner(key("old"), "c") == NEW_ACTS
    made.note(resource("new", "2", cluster="c"), was_read=True)
    assert made.competing_owner(key("old"), "c") is None


def test_an_open_step_blocks_other_resources_even_after_its_resource_was_deleted() -> None:
    seconds = 0.0
    old, new = resource("old", "1", cluster="c"), resource("new", "2", cluster="c")
    made = claims(old, new, monotonic=lambda: seconds)
    made.acts(key("new"))
    made.forget(key("new"))
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    made.forget(key("old"))
    made.note(resource("new", "3", cluster="c", uid="another life"))
    assert made.competing_owner(key("new"), "c") == NEW_ACTS
    seconds = SENT_FOR
    assert made.competing_owner(key("new"), "c") is None


def test_an_answered_step_of_a_deleted_resource_blocks_no_other_resource() -> None:
    made, new = claims(resource("old", "1", cluster="c"), resource("new", "2", cluster="c")), key("new")
    made.acts(new)
    made.acted(new)
    made.note(with_a_step(resource("new", "2", cluster="c")))  # a watch that is behind
    made.forget(new)
    assert made.competing_owner(key("old"), "c") is None


def test_an_answered_step_through_a_broker_still_blocks_other_resources() -> None:
    """The broker may forward the step once more."""
    seconds = 0.0
    made = claims(resource("old", "2026-01-01", cluster="c"), monotonic=lambda: seconds)
    made.note(resource("new", "2026-01-02", cluster="c"))
    made.acts(key("old"))
    done = resource("old", "2026-01-01", cluster="c")
    history = [{"action": "f 0 -> 1", "result": "Applied", "via": "Broker"}]
    made.note({**done, "status": {**done["status"], "history": history}}, was_read=True)
    made.forget(key("old"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False, is_acting=True)
    seconds = SENT_FOR
    assert made.competing_owner(key("new"), "c") is None


@pytest.mark.parametrize("answered", [Via.CONTROLLER, Via.BROKER])
def test_a_step_through_a_broker_blocks_other_resources_even_after_later_steps(answered: Via) -> None:
    now = 0.0
    made = claims(resource("old", "1", cluster="c"), resource("new", "2", cluster="c"), monotonic=lambda: now)
    made.acts(key("old"), Via.BROKER)
    for now in (10.0, 20.0):  # noqa: B007 - the clock shows it
        made.acts(key("old"), answered)
        made.acted(key("old"))
    made.forget(key("old"))
    now = SENT_FOR - 1
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False, is_acting=True)
    now = SENT_FOR
    assert made.competing_owner(key("new"), "c") is None


def test_a_step_left_open_by_another_process_blocks_for_a_limited_time() -> None:
    """The older resource, which owns the cluster, waits for a step of the younger one, sent by the process before."""
    now = 0.0
    old, new = resource("old", "1", cluster="c"), resource("new", "2", cluster="c")
    made, new_with_step = claims(old, new, monotonic=lambda: now), with_a_step(new)
    made.note(new_with_step)  # written after our list of resources
    made.note(new_with_step)  # a watch, and later a read, show the same step: neither prolongs the wait
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    now = SENT_FOR / 2
    made.note(new_with_step, was_read=True)
    assert made.competing_owner(key("old"), "c") == NEW_ACTS
    now = SENT_FOR
    assert made.competing_owner(key("old"), "c") is None
    made.note(new_with_step, was_read=True)
    assert made.competing_owner(key("old"), "c") is None


SENT_DIRECTLY = {"kind": "UpdateFeature", "target": "group.version", "via": "Controller"}
THROUGH_BROKER = {**SENT_DIRECTLY, "via": "Broker"}


@pytest.mark.parametrize(
    ("intents", "seconds"),
    [
        ([SENT_DIRECTLY], SENT_DIRECTLY_FOR),
        ([{**SENT_DIRECTLY, "outcome": "Applied"}], SENT_DIRECTLY_FOR),
        ([THROUGH_BROKER], SENT_FOR),
        ([SENT_DIRECTLY, THROUGH_BROKER], SENT_FOR),
        ([{"kind": "DeleteZnodes", "via": "ZooKeeper"}], SENT_DIRECTLY_FOR),
        ([{"kind": "RestartNode", "via": "ApiServer"}], SENT_FOR),
        ([{"kind": "RestartNode", "via": "ApiServer", "by": "annotation"}], STRIMZI.request_lifetime.total_seconds()),
        ([{"kind": "Future", "via": "Controller"}], SENT_FOR),
        ([{"kind": ["?"], "via": ["?"], "by": ["?"]}], SENT_FOR),
        (["?"], SENT_FOR),
        ("?", SENT_FOR),
    ],
    ids=[
        "to the controller", "to the controller, answered", "through a broker", "both", "to ZooKeeper", "an eviction",
        "asked of Strimzi", "of a newer release", "damaged fields", "damaged intent", "damaged intents",
    ],
)  # fmt: skip
def test_a_deleted_resource_with_an_open_step_blocks_others_as_long_as_the_route_may_keep_the_step(
    intents: Any, seconds: float
) -> None:
    now = 0.0
    old, new = resource("old", "1", cluster="c"), resource("new", "2", cluster="c")
    made = claims({**old, "status": {**old["status"], "intents": intents}}, new, monotonic=lambda: now)
    made.forget(key("old"))  # its process is gone as well
    now = seconds - 1
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False, is_acting=True)
    now = seconds
    assert made.competing_owner(key("new"), "c") is None


def test_a_deleted_resource_blocks_others_while_a_broker_may_keep_its_step_although_a_later_one_went_directly() -> None:
    now = 0.0
    sent_through_broker_at = 2  # seconds; the second of three steps
    old, new = resource("old", "1", cluster="c"), resource("new", "2", cluster="c")
    made = claims(old, new, monotonic=lambda: now)
    for step in (SENT_DIRECTLY, THROUGH_BROKER, SENT_DIRECTLY):
        now += 1
        made.note({**old, "status": {**old["status"], "intents": [step]}})
    made.forget(key("old"))
    now = sent_through_broker_at + SENT_FOR - 1
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False, is_acting=True)
    now += 1
    assert made.competing_owner(key("new"), "c") is None


@pytest.mark.parametrize(
    ("via", "seconds"),
    [(Via.CONTROLLER, SENT_DIRECTLY_FOR), (Via.ZOOKEEPER, SENT_DIRECTLY_FOR), (Via.BROKER, SENT_FOR)],
)
def test_an_unanswered_step_of_this_process_blocks_as_long_as_one_of_another_process(via: Via, seconds: float) -> None:
    now = 0.0
    old, new = resource("old", "1", cluster="c"), resource("new", "2", cluster="c")
    made = claims(old, new, monotonic=lambda: now)
    made.acts(key("old"), via)
    made.note({**old, "status": {**old["status"], "intents": [{**SENT_DIRECTLY, "via": via.value}]}})
    made.forget(key("old"))
    now = seconds - 1
    assert made.competing_owner(key("new"), "c") is not None
    now = seconds
    assert made.competing_owner(key("new"), "c") is None


def test_a_competing_resource_of_another_namespace_is_reported_without_its_name() -> None:
    theirs = resource("secret-project", "1", cluster="c")
    theirs["metadata"]["namespace"] = "theirs"
    made = claims(theirs, resource("ours", "2", cluster="c"))
    assert made.competing_owner(key("ours"), "c") == Owner("a resource in another namespace", owns_cluster=True)


def test_a_deleted_resource_owns_no_cluster_and_its_successor_starts_without_claims() -> None:
    made = claims(resource("old", "1", cluster="c"), resource("new", "2", cluster="c"))
    made.forget(key("old"))
    assert made.competing_owner(key("new"), "c") is None
    made.reconciled(key("old"))
    made.note(resource("old", "0", uid="another"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False)


def test_a_recreated_resource_inherits_no_claim() -> None:
    made = claims(resource("old", "1", cluster="c"), resource("new", "2", cluster="c"))
    made.reconciled(key("old"))
    made.note(resource("old", "1", uid="another"))
    assert made.competing_owner(key("new"), "c") == Owner("ns/old", owns_cluster=False)


def restarting(name: str, age: str, *sets: str, mode: str = "Apply", driver: str = "StatefulSet") -> dict[str, Any]:
    made = resource(name, age, mode=mode)
    made["spec"]["workload"] = {"driver": driver, "statefulSet": {"brokers": list(sets), "controllers": ["c"]}}
    return made


def test_only_the_older_of_two_resources_with_the_same_pods_restarts_them() -> None:
    made = claims(restarting("old", "1", "a", "b"), restarting("new", "2", "b", "d"))
    assert made.competing_driver(key("new"), "b") == "KafkaFeatures old"
    assert made.competing_driver(key("new"), "c") == "KafkaFeatures old"
    assert made.competing_driver(key("new"), "d") == ""
    assert made.competing_driver(key("old"), "b") == ""
    made.note(restarting("old", "1", "a"))
    assert made.competing_driver(key("new"), "b") == ""
    made.forget(key("old"))
    assert made.competing_driver(key("new"), "c") == ""


def test_a_resource_that_observes_or_has_another_driver_or_namespace_does_not_claim_these_pods() -> None:
    elsewhere = restarting("far", "1", "b")
    elsewhere["metadata"]["namespace"] = "other"
    broken = resource("broken", "1")
    broken["spec"]["workload"] = "StatefulSet"
    other_resources = (restarting("sees", "1", "b", mode="Observe"), restarting("asks", "1", "b", driver="Manual"))
    made = claims(elsewhere, broken, *other_resources, restarting("new", "2", "b"))
    assert made.competing_driver(key("new"), "b") == ""
    assert made.competing_driver(key("nobody"), "b") == ""


def test_claims_of_deleted_resources_are_freed() -> None:
    """A malicious cluster could report another id to each new resource: claims must not fill the memory."""
    made = claims()
    for number in range(100):
        made.note(resource("one", "1", cluster=f"c{number}"))
        made.forget(key("one"))
    assert made.clusters == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["c", "d", ""]), st.booleans()), max_size=8))
def test_at_most_one_resource_has_no_competing_owner_on_a_cluster(many: list[tuple[int, str, bool]]) -> None:
    made = Claims(monotonic=SYSTEM.monotonic)
    for number, (age, cluster, applies) in enumerate(many):
        made.note(resource(str(number), str(age), cluster=cluster, mode="Apply" if applies else "Observe"))
        made.reconciled(key(str(number)))
    for cluster in ("c", "d"):
        owners = [
            number
            for number, (_, of, applies) in enumerate(many)
            if of == cluster and applies and made.competing_owner(key(str(number)), cluster) is None
        ]
        assert len(owners) == min(1, sum(of == cluster and applies for _, of, applies in many))
