"""The simulated API server: it answers like a real one, and can have faults that are rare on a real one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.errors import Conflict, Gone, RequestRefused, Unavailable
from tests.simulated import schema
from tests.simulated.conformance import CASES, NAMESPACE, SPEC, Ask
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Request, refusal
from tests.simulated.store import Expired
from tests.simulated.workloads import Workloads

KEY = ResourceKey("kafka", "orders")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_simulated_kubernetes_answers_as_a_real_one(case: Callable[[Ask], None]) -> None:
    server = ApiServer()
    server.put("elsewhere", "configmaps", "older")
    server.compact()
    Workloads(server, NAMESPACE)
    case(server.answer)


def served() -> ApiServer:
    server = ApiServer()
    server.create(*KEY, SPEC)
    return server


async def test_a_write_is_stored_though_its_answer_is_lost() -> None:
    server = served()
    for carried_out in (False, True):
        fault = Fault(carried_out=carried_out)
        api = server.client(lambda request, fault=fault: fault if request.writes else None)  # type: ignore[misc]
        with pytest.raises(Unavailable):
            await api.replace_status(await api.resource(KEY), {"changeCount": 1}, manager="us")
        assert ("status" in await api.resource(KEY)) is carried_out


async def test_a_refusal_with_retry_after_carries_the_time_of_the_next_attempt() -> None:
    api = served().client(lambda request: Fault(refusal(429, "slower", Retry_After="7")))
    with pytest.raises(Unavailable, match="429 slower") as raised:
        await api.resource(KEY)
    assert raised.value.retry_after == 7.0


async def test_a_write_after_a_stale_read_is_a_conflict() -> None:
    server = served()
    server.edit(*KEY, lambda one: one["spec"].update(suspend=True))
    api = server.client(lambda request: Fault(lag=1) if request.method == "GET" else None)
    old = await api.resource(KEY)
    assert old["spec"]["suspend"] is False
    with pytest.raises(Conflict):
        await api.replace_status(old, {"changeCount": 1}, manager="us")


async def test_a_stale_cache_answers_only_reads_with_a_resource_version() -> None:
    server = served()
    server.edit(*KEY, lambda one: one["spec"].update(suspend=True))
    server.cache_lag = 1
    path = "/apis/kafkafeatures.dev/v1alpha1/namespaces/kafka/kafkafeatures/orders"
    assert server.answer(Request("GET", path)).body["spec"]["suspend"] is True
    assert server.answer(Request("GET", path, {"resourceVersion": "0"})).body["spec"]["suspend"] is False


async def test_an_older_schema_drops_a_field() -> None:
    server = served()
    server.schema = schema.without("status.changeCount")
    api = server.client()
    made = await api.replace_status(await api.resource(KEY), {"changeCount": 1, "progress": "0/1"}, manager="us")
    assert made["status"] == {"progress": "0/1"}


async def test_a_watch_gives_the_events_since_the_last_read_and_expires_after_a_compaction() -> None:
    server = served()
    watch = server.watch("kafka")
    server.edit(*KEY, lambda one: one["spec"].update(suspend=True))
    server.delete(*KEY)
    assert [one["type"] for one in watch.take()] == ["MODIFIED", "DELETED"]
    server.create(*KEY, SPEC)
    server.compact()
    with pytest.raises(Expired):
        watch.take()


async def test_a_list_after_a_restore_of_etcd_is_marked_as_restored() -> None:
    server = served()
    api, before = server.client(), server.revision
    server.create("kafka", "lost", SPEC)
    assert not (await api.resources()).restored
    server.restore(before)
    assert (await api.resources()).restored
    with pytest.raises(Gone):
        await api.resource(ResourceKey("kafka", "lost"))


async def test_a_read_of_a_forbidden_kind_is_refused() -> None:
    server = served()
    server.forbidden.add("secrets")
    with pytest.raises(RequestRefused, match="secrets"):
        await server.client().secret("kafka", "login")
