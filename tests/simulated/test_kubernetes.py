"""The simulated API server: as a real one, and with the faults that a real one has seldom."""

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


async def test_a_lost_answer_is_not_a_lost_write() -> None:
    server = served()
    for carried_out in (False, True):
        fault = Fault(carried_out=carried_out)
        api = server.client(lambda request, fault=fault: fault if request.writes else None)  # type: ignore[misc]
        with pytest.raises(Unavailable):
            await api.replace_status(await api.resource(KEY), {"changeCount": 1}, manager="us")
        assert ("status" in await api.resource(KEY)) is carried_out


async def test_a_refusal_says_when_to_come_again() -> None:
    api = served().client(lambda request: Fault(refusal(429, "slower", Retry_After="7")))
    with pytest.raises(Unavailable, match="429 slower") as raised:
        await api.resource(KEY)
    assert raised.value.retry_after == 7.0


async def test_a_read_that_lags_leads_to_a_conflict() -> None:
    server = served()
    server.edit(*KEY, lambda one: one["spec"].update(suspend=True))
    api = server.client(lambda request: Fault(lag=1) if request.method == "GET" else None)
    old = await api.resource(KEY)
    assert old["spec"]["suspend"] is False
    with pytest.raises(Conflict):
        await api.replace_status(old, {"changeCount": 1}, manager="us")


async def test_a_cache_that_lags_is_asked_only_where_that_is_meant() -> None:
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


async def test_a_watch_is_behind_until_it_is_asked_and_ends_with_what_is_forgotten() -> None:
    server = served()
    watch = server.watch("kafka")
    server.edit(*KEY, lambda one: one["spec"].update(suspend=True))
    server.delete(*KEY)
    assert [one["type"] for one in watch.take()] == ["MODIFIED", "DELETED"]
    server.create(*KEY, SPEC)
    server.compact()
    with pytest.raises(Expired):
        watch.take()


async def test_a_restored_etcd_gives_numbers_again_and_a_list_shows_it() -> None:
    server = served()
    api, before = server.client(), server.revision
    server.create("kafka", "lost", SPEC)
    assert not (await api.resources()).restored
    server.restore(before)
    assert (await api.resources()).restored
    with pytest.raises(Gone):
        await api.resource(ResourceKey("kafka", "lost"))


async def test_what_no_client_may_read_is_refused() -> None:
    server = served()
    server.forbidden.add("secrets")
    with pytest.raises(RequestRefused, match="secrets"):
        await server.client().secret("kafka", "login")
