"""A restart that was asked of Strimzi is withdrawn at start if no resource waits for it, and never that of a person.

Production's controller and driver, on the simulated API server with its pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.client import KubeApi
from kafkafeatures.reconcile.abandoned_requests import RETRY_AFTER, AbandonedRequests
from tests.kafkafeatures.reconcile.strimzi_rig import RESTART, Strimzi
from tests.kafkafeatures.reconcile.test_strimzi_requests import ASKED, WITHDRAWN, asked, refused
from tests.simulated.orders import KEY
from tests.simulated.requests import Fault, Request, refusal

EVERY = 600.0


async def begun(
    strimzi: Strimzi, rounds: int = 1, namespace: str = "kafka", client: KubeApi | None = None
) -> list[float]:
    """The operator begins, and reads the pods so many times. Returns its pauses in seconds."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == rounds:
            raise asyncio.CancelledError

    environment = Environment(SYSTEM.clock, SYSTEM.monotonic, lambda: 0.0, sleep)
    with pytest.raises(asyncio.CancelledError):
        await AbandonedRequests(client or strimzi.api.client(), (namespace,), environment, every=EVERY).run()
    return pauses


async def test_the_request_of_a_document_that_was_deleted_while_no_operator_ran_is_withdrawn_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    assert await begun(strimzi, 2) == [EVERY, EVERY]
    assert strimzi.requests == [ASKED, WITHDRAWN]
    text = "withdrawn: the request to restart pod broker-1, for which no KafkaFeatures waits any more"
    assert caplog.text.count(text) == 1


async def test_a_request_that_a_resource_waits_for_stays() -> None:
    strimzi = await asked()
    await begun(strimzi)
    assert strimzi.requests == [ASKED]


async def test_a_request_that_a_status_no_longer_has_is_withdrawn_and_made_again_if_it_is_still_wanted() -> None:
    strimzi = await asked()
    strimzi.api.edit_status(lambda status: status.pop("intents"))
    await begun(strimzi)
    await strimzi.work(2)
    assert strimzi.requests == [ASKED, WITHDRAWN, ASKED]


async def test_the_request_of_a_person_is_never_withdrawn() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.annotation("broker-1", RESTART, "true")
    strimzi.api.server.delete(*KEY)
    await begun(strimzi)
    assert strimzi.requests == []


async def test_a_request_that_a_person_has_made_once_more_is_that_of_the_person() -> None:
    strimzi = await asked()
    theirs = {"manager": "kubectl-annotate", "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{RESTART}": {}}}}}
    strimzi.workloads.change_pod("broker-1", lambda pod: pod["metadata"]["managedFields"].append(theirs))
    strimzi.api.server.delete(*KEY)
    await begun(strimzi)
    assert strimzi.requests == [ASKED]


@pytest.mark.parametrize("intents", ["nothing", [1], [{"podUid": {}}], None], ids=str)
async def test_a_damaged_status_waits_for_no_request(intents: Any) -> None:
    strimzi = await asked()
    _edit(strimzi, lambda resource: resource["status"].update(intents=intents))
    await begun(strimzi)
    assert strimzi.requests == [ASKED, WITHDRAWN]


def _edit(strimzi: Strimzi, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the resource past the schema, as an older one would have allowed."""
    path = "/apis/kafkafeatures.dev/v1alpha1/namespaces/kafka/kafkafeatures/orders"
    resource = strimzi.api.object
    change(resource)
    strimzi.api.server.store(path, resource)


async def test_a_withdrawal_that_is_not_answered_is_tried_again_at_the_next_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    refused(strimzi, 1)
    await begun(strimzi, 2)
    assert strimzi.requests == [ASKED, WITHDRAWN, WITHDRAWN]
    assert "the request to restart pod broker-1 could not be withdrawn: " in caplog.text


@pytest.mark.parametrize(
    ("code", "pause", "logs"),
    [(500, RETRY_AFTER, ""), (403, EVERY, "etcd is away; grant the rights of docs/how-to/install.md")],
    ids=["no answer", "no right"],
)
async def test_pods_that_cannot_be_read_are_read_again_and_a_missing_right_is_logged(
    code: int, pause: float, logs: str, caplog: pytest.LogCaptureFixture
) -> None:
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    heard, answers = strimzi.api.faults, [Fault(refusal(code, "etcd is away"))]

    def faults(request: Request) -> Fault | None:
        return answers.pop() if answers and request.path.endswith("/pods") else heard(request)

    strimzi.api.faults = faults
    assert await begun(strimzi, 2) == [pause, EVERY]
    assert strimzi.requests == [ASKED, WITHDRAWN]
    assert logs in caplog.text


async def test_while_the_kind_is_not_served_nothing_is_withdrawn_and_one_line_an_interval_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    heard = strimzi.api.faults

    def faults(request: Request) -> Fault | None:
        return Fault(refusal(404, "page not found")) if request.path.endswith("/kafkafeatures") else heard(request)

    strimzi.api.faults = faults
    assert await begun(strimzi, 2) == [EVERY, EVERY]
    assert strimzi.requests == [ASKED]
    text = "; install the CustomResourceDefinition kafkafeatures.kafkafeatures.dev: until then no request is withdrawn"
    assert [record.message.endswith(text) for record in caplog.records] == [True, True]


async def test_no_request_is_withdrawn_if_the_resources_cannot_be_read() -> None:
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    strimzi.api.server.forbidden.add("kafkafeatures")
    await begun(strimzi)
    assert strimzi.requests == [ASKED]


@pytest.mark.parametrize("at", [1, 2])
async def test_a_request_that_is_made_while_pods_and_resources_are_read_stays(at: int) -> None:
    strimzi = Strimzi()
    await strimzi.work()
    count = 0

    async def latency() -> None:
        nonlocal count
        count += 1
        if count == at:
            strimzi.request("broker-1")
            await strimzi.work(2)

    await begun(strimzi, 2, client=strimzi.api.server.client(latency=latency))
    assert strimzi.annotations("broker-1")[RESTART] == "true"


async def test_another_namespace_is_not_read_and_without_one_nothing_is_done() -> None:
    strimzi = await asked()
    strimzi.api.server.delete(*KEY)
    await begun(strimzi, namespace="other")
    await AbandonedRequests(strimzi.api.client(), (), SYSTEM, every=EVERY).run()
    assert strimzi.requests == [ASKED]


async def test_that_etcd_was_restored_is_left_for_the_lists_of_resources_to_find() -> None:
    strimzi = await asked()
    client, revision = strimzi.api.client(), strimzi.api.server.revision
    strimzi.api.edit(suspend=True)
    await client.resources("kafka")
    strimzi.api.server.restore(revision)
    await begun(strimzi, client=client)
    assert (await client.resources("kafka")).restored
