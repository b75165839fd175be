"""A CRD that is older than the operator: no step is sent whose record the API server would drop from the status."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.names import RECONCILE
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.kubernetes_store import KubernetesStore, LastStatus, SchemaOutdated, dropped_fields
from kafkasim.connection import Access
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkasim.clusters import CLUSTER_ID
from tests.simulated import schema
from tests.simulated.orders import KEY, Orders
from tests.simulated.requests import Fault, Request, refusal

Json = dict[str, Any]


@pytest.mark.parametrize("field", ["intents", "plan.stages", "operator", "spentConsents", "clusterId", "conditions"])
async def test_no_step_is_sent_if_an_older_crd_drops_a_status_field_and_the_status_names_the_field(field: str) -> None:
    rig = Rig(Orders())
    rig.api.server.schema = schema_without(field)
    for _ in range(3):
        await rig.work()
    assert rig.kafka.sent == []
    if field == "conditions":
        return  # no other field could report it
    stalled = rig.api.condition("Stalled")
    assert stalled["reason"] == rig.api.condition("Ready")["reason"] == "SchemaOutdated"
    assert f"status.{field}" in stalled["message"]
    assert "intents" not in rig.api.status
    assert rig.api.events.count("SchemaOutdated") == 1


async def test_an_older_crd_causes_no_repeated_writes_and_an_updated_crd_lets_the_resource_continue() -> None:
    rig = Rig(Orders())
    rig.api.server.schema = schema_without("intents")
    for _ in range(2):
        await rig.work()
    writes = rig.api.writes
    for _ in range(3):
        await rig.work()
    assert rig.api.writes == writes
    rig.api.server.schema = schema.current()
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"
    assert len(rig.kafka.sent) == 1


async def test_a_dropped_answer_to_a_reconciliation_request_does_not_stall_the_resource() -> None:
    rig = Rig(Orders())
    rig.api.server.schema = schema_without("lastHandledReconcileAt")
    rig.api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(annotations={RECONCILE: "now"}))
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"


async def test_a_status_that_an_older_crd_rejects_is_reported() -> None:
    rig = Rig(Orders())

    def refuses(request: Request) -> Fault | None:
        refused = "intents" in ((request.body or {}).get("status") or {})
        return Fault(refusal(422, "status.intent.via: Unsupported value")) if refused else None

    rig.api.faults = refuses
    await rig.work()
    assert rig.kafka.sent == []
    assert "Unsupported value" in rig.api.condition("Stalled")["message"]
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"


def schema_without(*fields: str) -> Mapping[str, Any]:
    """Return a schema without these fields of the status; `plan.stages` is a nested one."""
    return schema.without(*(f"status.{field}" for field in fields))


WRITER = OperatorIdentity("", "operator", "test")
LOWER = {"levels": [{"name": "metadata.version", "level": 20}]}


async def test_a_resource_whose_status_was_rejected_continues_once_its_document_was_edited() -> None:
    rig = Rig(Orders())

    def refuses(request: Request) -> Fault | None:
        status = (request.body or {}).get("status") or {}
        refused = status.get("observedGeneration") == 1 and "intents" in status
        return Fault(refusal(422, "status.intent: too long")) if refused else None

    rig.api.faults = refuses
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.api.edit()
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"


async def test_a_used_consent_is_not_used_again_after_an_older_crd_dropped_it_from_the_status() -> None:
    """The CRD of an older release is installed for a while: the first write drops the fields that it does not have."""
    rig = Rig(Orders(), Kafka({"metadata.version": 21})).met()
    rig.api.edit(features=LOWER, consents=["metadata.version:21->20"])
    for _ in range(4):
        await rig.work()
    assert rig.api.status["spentConsents"] == ["metadata.version:21->20"]
    rig.api.server.schema = schema_without("spentConsents")
    rig.api.edit_status(lambda status: status.pop("spentConsents"))
    assert rig.kafka.move("metadata.version", 21)  # by hand
    rig.api.edit(drift={"onDrift": "Correct"})
    another = Rig(rig.api, rig.kafka)
    await another.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.api.server.schema = schema.current()
    for _ in range(4):
        await another.work()
    assert len(rig.kafka.sent) == 1
    assert rig.api.condition("Stalled")["reason"] == "ConsentSpent"


@pytest.mark.parametrize("dropped", ["unverifiedConsents logPosition", "spentConsents", "plan"])
@pytest.mark.parametrize("log", [True, False], ids=["log readable", "log not readable"])
@pytest.mark.parametrize("then", ["the current CRD", "another process"])
async def test_a_possibly_used_consent_stays_possibly_used_with_an_older_crd(
    then: str, log: bool, dropped: str
) -> None:
    """The first contact happens with an older CRD, which lacks the fields that say so, or another field."""
    rig = Rig(Orders(), Kafka({"metadata.version": 21}))
    rig.api.edit(features=LOWER, consents=["metadata.version:21->20"])
    rig.kafka.reach(Access(cluster_action=log))
    rig.api.server.schema = schema_without(*dropped.split())
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    if then == "another process":
        rig = Rig(rig.api, rig.kafka)
        for _ in range(4):
            await rig.work()
        assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.api.server.schema = schema.current()
    for _ in range(4):
        await rig.work()
    assert rig.kafka.sent == []
    assert rig.api.condition("ApprovalRequired")["reason"] == "PlanPending"


@pytest.mark.parametrize("forgotten", [("spentConsents",), ("spentConsents", "operator")], ids=", ".join)
@pytest.mark.parametrize(
    "meanwhile", ["missing Secret", "invalid document", "failed reconciliation", "failed with the older CRD"]
)
async def test_a_used_consent_that_an_older_crd_dropped_stays_used_whatever_is_written_to_the_status(
    meanwhile: str, forgotten: tuple[str, ...]
) -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 21})).met()
    rig.api.edit(features=LOWER, consents=["metadata.version:21->20"], drift={"onDrift": "Correct"})
    for _ in range(4):
        await rig.work()
    rig.api.edit_status(lambda status: [status.pop(name) for name in forgotten])
    rig.api.server.schema = schema_without(*forgotten)
    assert rig.kafka.move("metadata.version", 21)  # by hand
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    if meanwhile == "failed with the older CRD":
        await rig.controller.failed(KEY, TimeoutError())
    rig.api.server.schema = schema.current()
    if meanwhile == "failed with the older CRD":
        await rig.work()
    elif meanwhile == "failed reconciliation":
        await rig.controller.failed(KEY, TimeoutError())
    else:
        cluster = rig.api.spec["cluster"]
        missing = {"tls": {"caSecretRef": {"name": "ca"}}}
        broken = missing if meanwhile == "missing Secret" else {"bootstrapServers": "kafka"}
        rig.api.edit(cluster={**cluster, **broken}, drift={"onDrift": "Correct"})
        await rig.work()
        rig.api.edit(cluster=cluster, drift={"onDrift": "Correct"})
    for _ in range(4):
        await rig.work()
    assert len(rig.kafka.sent) == 1
    assert rig.api.condition("Stalled")["reason"] == "ConsentSpent"


async def test_a_consent_that_was_never_used_survives_an_older_schema() -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 21})).met()
    rig.api.edit(features=LOWER, consents=["metadata.version:21->20"])
    rig.api.server.schema = schema_without("spentConsents", "intents")
    await rig.work()
    rig.api.server.schema = schema.current()
    for _ in range(4):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"


async def test_the_cluster_id_stays_pinned_if_an_older_crd_drops_another_field() -> None:
    """The first write has the cluster id and an intent, which is dropped, so nothing was sent. Then the addresses lead
    to another cluster.
    """
    rig = Rig(Orders())
    rig.api.server.schema = schema_without("intents")
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.kafka.world.cluster_id = "cluster-2"
    rig.api.server.schema = schema.current()
    for instance in ("test", "restarted"):
        await Rig(rig.api, rig.kafka, instance).work()
        assert rig.api.condition("Stalled")["message"].startswith(
            f"connected to cluster cluster-2, expected {CLUSTER_ID}"
        )
    assert rig.kafka.sent == []


@pytest.mark.parametrize("named", ["cluster-2", CLUSTER_ID])
async def test_a_resource_whose_pinned_cluster_was_dropped_sends_nothing_until_the_document_names_it(
    named: str,
) -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 25}))
    rig.api.edit(mode="Observe")
    await rig.work()
    assert rig.api.status["clusterId"] == CLUSTER_ID
    rig.api.server.schema = schema_without("clusterId")
    rig.api.edit_status(lambda status: status.pop("clusterId"))
    rig.api.edit(mode="Apply")
    another = Rig(rig.api, rig.kafka, "restarted")
    await another.work()
    assert "status.clusterId" in rig.api.condition("Stalled")["message"]
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.kafka.world.cluster_id = named
    rig.api.server.schema = schema.current()
    for _ in range(3):
        await another.work()
    stalled = rig.api.condition("Stalled")
    assert stalled["reason"] == "ClusterIdMismatch"
    assert stalled["message"].endswith(f"set spec.cluster.clusterId to {named}")
    assert (rig.kafka.sent, rig.api.status["clusterId"]) == ([], "")
    rig.api.edit(cluster={**rig.api.spec["cluster"], "clusterId": named})
    for _ in range(3):
        await another.work()
    assert (len(rig.kafka.sent), rig.api.status["clusterId"]) == (1, named)
    assert rig.api.condition("Ready")["reason"] == "InSync"


# --- steps that were sent before an older CRD was installed ---


def restored(rig: Rig) -> None:
    rig.controller.discard_versions()


LATER: dict[str, Callable[[Rig], object]] = {"the CRD is current": lambda rig: None, "etcd is restored": restored}


@pytest.mark.parametrize("later", LATER)
async def test_an_open_step_is_waited_for_also_after_an_older_crd_dropped_its_intent(later: str) -> None:
    """A broker may deliver the change for five minutes; meanwhile the document asks for another feature."""
    rig = Rig(Orders(), Kafka({"metadata.version": 25}))
    rig.kafka.through_broker, rig.kafka.outcomes = True, [OutcomeUnknown("EOF")]
    rig.api.edit(features={"levels": [{"name": "metadata.version", "level": 27}]})
    await rig.work()
    intents = rig.api.status["intents"]
    assert len(rig.kafka.sent) == 1
    rig.api.server.schema = schema_without("intents")
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    assert "intents" not in rig.api.status
    rig.api.edit(features={"levels": [{"name": "group.version", "level": 1}]})
    rig.api.server.schema = schema.current()
    LATER[later](rig)
    # The lost intent still counts: an older resource for the cluster has to wait for this one.
    elder = {"name": "elder", "namespace": KEY.namespace, "uid": "0", "creationTimestamp": "2020-01-01T00:00:00Z"}
    rig.claims.note({"metadata": elder, "spec": {}, "status": {"clusterId": CLUSTER_ID}})
    competing = rig.claims.competing_owner(ResourceKey(KEY.namespace, "elder"), CLUSTER_ID)
    assert competing is not None
    assert competing.is_acting
    rig.claims.forget(ResourceKey(KEY.namespace, "elder"))
    await rig.work()
    assert (rig.api.condition("Ready")["reason"], rig.api.status["intents"]) == ("Verifying", intents)
    assert len(rig.kafka.sent) == 1
    rig.seconds += 300
    for _ in range(3):
        await rig.work()
    assert [entry["result"] for entry in rig.api.status["history"]] == ["NotApplied", "Applied"]
    assert "intents" not in rig.api.status


async def test_a_change_through_a_broker_delays_the_next_one_also_after_an_older_crd_dropped_the_history() -> None:
    """The broker may still deliver the raise once more, so the downgrade waits."""
    rig = Rig(Orders(), Kafka({"metadata.version": 25}))
    rig.kafka.through_broker = True
    rig.api.edit(features={"levels": [{"name": "group.version", "level": 1}]})
    for _ in range(3):
        await rig.work()
    assert [entry["via"] for entry in rig.api.status["history"]] == ["Broker"]
    rig.api.server.schema = schema_without("history")
    assert rig.kafka.move("transaction.version", 1)  # changes the status, so that it is written with the old CRD
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    assert "history" not in rig.api.status
    rig.api.edit(features={"levels": [{"name": "group.version", "level": 0}]}, consents=["group.version:1->0"])
    rig.api.server.schema = schema.current()
    await rig.work()
    assert rig.api.condition("Ready")["reason"] == "Verifying"
    assert len(rig.kafka.sent) == 1


@pytest.mark.parametrize("then", ["read again", "created again", "of another cluster"])
async def test_a_spent_consent_that_an_older_crd_dropped_stays_spent_for_the_same_resource_and_cluster(
    then: str,
) -> None:
    api, last = Orders(), LastStatus()
    bound = Status(cluster_id=CLUSTER_ID, spent_consents=("a",), change_count=1)
    store = KubernetesStore(api.client(), KEY, lambda: WRITER, last)
    await store.fetch()
    await store.write_status(bound)
    api.server.schema = schema_without("spentConsents", "changeCount")
    with pytest.raises(SchemaOutdated):
        await store.write_status(replace(bound, spent_consents=("b",), change_count=2))
    api.server.schema = schema.current()
    if then == "created again":
        api.server.delete(*KEY)
        api.create(cluster={"bootstrapServers": "kafka:9092"})
    if then != "read again":
        cluster = "another" if then == "of another cluster" else CLUSTER_ID
        api.edit_status(lambda status: status.update(clusterId=cluster, spentConsents=["c"], changeCount=7))
    store = KubernetesStore(api.client(), KEY, lambda: WRITER, last)
    await store.fetch()
    remembered = (store.status.spent_consents, store.status.change_count)
    assert remembered == ((("a", "b"), 2) if then == "read again" else (("c",), 7))


# --- the comparison ---

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner), max_leaves=9
)
STATUSES = st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=4)


@given(STATUSES)
def test_a_field_in_another_notation_does_not_count_as_dropped(status: Json) -> None:
    def written(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{name: written(item) for name, item in value.items()}, "by default": 1}
        if isinstance(value, list):
            return [written(item) for item in value]
        return f"{value} in other words"

    assert list(dropped_fields(status, written(status))) == []


def places(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [(value, name) for name in value] + [path for item in value.values() for path in places(item)]
    if isinstance(value, list):
        return [(value, at) for at in range(len(value))] + [path for item in value for path in places(item)]
    return []


@given(STATUSES, st.data())
def test_a_field_dropped_at_any_place_of_a_status_is_detected(status: Json, data: st.DataObject) -> None:
    unchanged = copy.deepcopy(status)
    if places(unchanged):
        holder, name = data.draw(st.sampled_from(places(unchanged)))
        del holder[name]
        assert list(dropped_fields(status, unchanged))


@pytest.mark.parametrize(("on_drift", "reason"), [("Correct", "ApprovalRequired"), ("Report", "Drifted")])
async def test_an_approval_used_while_the_crd_was_older_stays_used(on_drift: str, reason: str) -> None:
    """Another client raised the level to the target and lowered it again: with the raise the approved plan was over."""
    rig = Rig(Orders(), Kafka({"metadata.version": 25}))
    drift = {"onDrift": on_drift}
    features = {"levels": [{"name": "group.version", "level": 1}]}
    rig.api.edit(features=features, approval={"policy": "Always"}, suspend=True, drift=drift)
    await rig.work()
    rig.api.edit(approval={"policy": "Always", "planHash": rig.api.status["plan"]["hash"]}, suspend=True, drift=drift)
    await rig.work()
    rig.api.server.schema = schema_without("changeCount")
    assert rig.kafka.move("group.version", 1)
    await rig.work()
    assert "status.changeCount" in rig.api.condition("Stalled")["message"]
    rig.api.server.schema = schema.current()
    assert rig.kafka.move("group.version", 0)
    approval = rig.api.spec["approval"]
    for minutes in range(1, 4):
        rig.api.edit(approval=approval, suspend=False, drift={**drift, "checkEvery": f"{minutes}m"})
        await rig.work()
    assert rig.kafka.sent == []
    assert rig.api.condition("Ready")["reason"] == reason
