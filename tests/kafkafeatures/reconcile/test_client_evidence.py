"""Evidence about clients is read in the background of reconciliations; without evidence the condition is Unknown."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from typing import Any

from prometheus_client import generate_latest

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.evidence import CounterKey
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.ports import EvidenceAnswer
from kafkafeatures.reconcile.client_evidence import EVERY, RETRY
from kafkafeatures.reconcile.client_reading import VALID_FOR
from tests.kafkafeatures.core.evidences import PRODUCE_2, scrapes
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkasim.clusters import plan
from tests.simulated.orders import KEY, Orders

AWAY = Failure(FailureKind.UNREACHABLE, "Prometheus", "Prometheus cannot be reached", "check the URL")
URL = "https://prometheus.monitoring:9090"


def rig_with(**evidence: Any) -> Rig:
    api = Orders()
    api.edit(clientEvidence={"prometheus": {"url": URL}, "target": "4.4", **evidence})
    return Rig(api)


def brokers_of(rig: Rig) -> tuple[int, ...]:
    return tuple(sorted(rig.kafka.world.image.brokers))


def answer(rig: Rig, *used: CounterKey) -> EvidenceAnswer:
    """Return evidence without a gap, that clients of the first broker used these API versions."""
    first, *other_ids = brokers_of(rig)
    return EvidenceAnswer((*scrapes(first, *used), *(scrape for id_ in other_ids for scrape in scrapes(id_))))


async def has_read() -> None:
    """Wait until no reading is under way."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("client evidence")]
    await asyncio.gather(*tasks)


async def condition(rig: Rig) -> tuple[str, str]:
    """Return the condition, after a reading in the background was reported."""
    await rig.controller.reconcile(KEY)
    await has_read()
    rig.seconds += 61
    await rig.controller.reconcile(KEY)
    clients_compatible = rig.api.condition("ClientsCompatible")
    return clients_compatible["status"], clients_compatible["reason"]


def events(rig: Rig) -> list[tuple[str, str]]:
    reasons = ("FirstBlockingClient", "ClientsCompatible")
    return [(event["type"], event["reason"]) for event in rig.api.server.events() if event["reason"] in reasons]


async def test_a_first_reconciliation_does_not_wait_for_evidence_and_the_next_one_reports_it() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig)
    await rig.controller.reconcile(KEY)
    assert rig.api.condition("ClientsCompatible")["reason"] == "EvidenceMissing"
    assert "being read" in rig.api.condition("ClientsCompatible")["message"]
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert rig.api.status["clients"]["verdict"] == "Ready"
    assert events(rig) == [("Normal", "ClientsCompatible")]
    assert b'kafkafeatures_blocking_clients{name="orders",namespace="kafka",target="4.4"} 0.0' in generate_latest(
        rig.metrics.registry
    )


async def test_without_client_evidence_nothing_is_read_and_there_is_no_condition() -> None:
    rig = Rig(Orders())
    await rig.controller.reconcile(KEY)
    assert not rig.prometheus
    assert "ClientsCompatible" not in {condition["type"] for condition in rig.api.status["conditions"]}


async def test_clients_that_break_are_named_in_the_status_and_make_one_event() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig, PRODUCE_2)
    assert await condition(rig) == ("False", "BlockingClients")
    assert "Produce v2" in rig.api.condition("ClientsCompatible")["message"]
    (blocker,) = rig.api.status["clients"]["blockers"]
    assert (blocker["api"], blocker["version"]) == PRODUCE_2
    for _ in range(3):
        rig.seconds += EVERY
        await condition(rig)
    assert events(rig) == [("Warning", "FirstBlockingClient")]
    rig.evidence = lambda _: answer(rig)
    rig.seconds += EVERY
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert events(rig) == [("Warning", "FirstBlockingClient"), ("Normal", "ClientsCompatible")]


async def test_a_prometheus_that_hangs_holds_up_no_reconciliation() -> None:
    rig, over = rig_with(), threading.Event()

    def hang(_: object) -> EvidenceAnswer:
        over.wait()
        return answer(rig)

    rig.evidence = hang
    try:
        for _ in range(5):
            await asyncio.wait_for(rig.controller.reconcile(KEY), 30)
            rig.seconds += 61
            assert rig.api.condition("ClientsCompatible")["reason"] == "EvidenceMissing"
        assert len(rig.prometheus) == 1
    finally:
        over.set()
        await has_read()


async def test_a_prometheus_that_hangs_for_50_s_is_read_again_only_after_ten_times_as_long() -> None:
    rig = rig_with()

    def hang(_: object) -> EvidenceAnswer:
        rig.seconds += 50
        return EvidenceAnswer(AWAY)

    rig.evidence = hang
    await condition(rig)
    # 500 s from the end of the reading; each call of `condition` takes 61 s as well.
    for seconds in (RETRY, 300.0):
        rig.seconds += seconds
        await condition(rig)
        assert len(rig.prometheus) == 1
    rig.seconds += 100
    await condition(rig)
    assert len(rig.prometheus) == 2


async def test_evidence_counts_for_half_an_hour_and_is_stale_afterwards() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.evidence = lambda _: EvidenceAnswer(AWAY)
    rig.seconds += VALID_FOR - 200  # `condition` adds 61 s each time
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.seconds += 200
    assert await condition(rig) == ("Unknown", "EvidenceStale")
    assert "Prometheus cannot be reached" in rig.api.condition("ClientsCompatible")["message"]
    rig.evidence = lambda _: answer(rig)
    rig.seconds += RETRY
    assert await condition(rig) == ("True", "NoBlockingClients")


async def test_evidence_that_took_long_to_read_is_as_old_as_the_begin_of_its_reading() -> None:
    """What clients sent while it was read is not in it."""
    rig = rig_with()

    def slow(_: object) -> EvidenceAnswer:
        rig.seconds += 100
        return answer(rig)

    rig.evidence = slow
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.evidence = lambda _: EvidenceAnswer(AWAY)
    rig.seconds = VALID_FOR  # since the reading began
    assert await condition(rig) == ("Unknown", "EvidenceStale")


async def test_evidence_becomes_stale_also_where_the_next_reading_does_not_end() -> None:
    rig, over = rig_with(), threading.Event()
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")

    def hang(_: object) -> EvidenceAnswer:
        over.wait()
        return EvidenceAnswer(AWAY)

    rig.evidence = hang
    try:
        for seconds, status in ((VALID_FOR - 100, "True"), (VALID_FOR + 1, "Unknown")):
            rig.seconds = seconds
            await rig.controller.reconcile(KEY)
            clients_compatible = rig.api.condition("ClientsCompatible")
            assert clients_compatible["status"] == status
        assert clients_compatible["reason"] == "EvidenceStale"
        assert "the last reading has not ended" in clients_compatible["message"]
    finally:
        over.set()
        await has_read()


async def test_a_broker_that_may_have_refused_is_not_covered_because_another_one_was_upgraded() -> None:
    """Broker 3 runs 4.2. The scrapes of the others do not show of which release their processes are."""
    api = Orders()
    api.edit(clientEvidence={"prometheus": {"url": URL}, "target": "4.4"})
    rig = Rig(api, Kafka({"metadata.version": 21}, plan({1: "3.9", 2: "3.9", 3: "4.2"})))
    both = [scrape for id_ in (1, 2) for scrape in scrapes(id_)]
    rig.evidence = lambda _: EvidenceAnswer(both)
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.evidence = lambda _: EvidenceAnswer([replace(scrape, accepts_removed=False) for scrape in both])
    rig.seconds += EVERY
    assert await condition(rig) == ("Unknown", "EvidenceIncomplete")
    assert "may be of 4.x" in rig.api.condition("ClientsCompatible")["message"]


async def test_an_exception_in_a_reading_of_evidence_fails_no_reconciliation() -> None:
    rig = rig_with()

    def fail(_: object) -> EvidenceAnswer:
        raise RuntimeError("secret")

    rig.evidence = fail
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert "secret" not in str(rig.api.object)
    assert rig.api.condition("Reachable")["status"] == "True"


async def test_a_resource_is_not_written_again_although_its_clients_send_more_and_more() -> None:
    rig, count = rig_with(), 0

    def growing(_: object) -> EvidenceAnswer:
        nonlocal count
        count += 1
        evidence, _ = answer(rig, PRODUCE_2)
        assert not isinstance(evidence, Failure)
        first = brokers_of(rig)[0]
        last = [scrape for scrape in evidence if scrape.broker == first][-1]
        more = replace(last, counters={**last.counters, PRODUCE_2: 10.0 * count})
        return EvidenceAnswer(tuple(more if scrape is last else scrape for scrape in evidence))

    rig.evidence = growing
    await condition(rig)
    version = rig.api.object["metadata"]["resourceVersion"]
    for _ in range(4):
        rig.seconds += EVERY
        await condition(rig)
    assert count > 3
    assert rig.api.object["metadata"]["resourceVersion"] == version


async def test_a_secret_without_the_label_is_not_sent_and_a_rotated_one_is() -> None:
    rig = rig_with(prometheus={"url": URL, "tokenSecretRef": {"name": "prometheus"}})
    rig.evidence = lambda _: answer(rig)
    data = {"token": b64encode(b"first\n").decode()}
    rig.api.server.put(KEY.namespace, "secrets", "prometheus", data=data)
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert "does not have the label" in rig.api.condition("ClientsCompatible")["message"]
    assert not rig.prometheus
    for token in ("first", "second"):
        labels = {"kafkafeatures.dev/credentials": "true"}
        data = {"token": b64encode(token.encode()).decode()}
        rig.api.server.put(KEY.namespace, "secrets", "prometheus", labels=labels, data=data)
        rig.seconds += EVERY
        assert await condition(rig) == ("True", "NoBlockingClients")
        assert rig.prometheus[-1].authorization == f"Bearer {token}"
        assert token not in repr(rig.prometheus[-1])


async def test_evidence_is_read_anew_for_another_target() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")
    readings = len(rig.prometheus)
    rig.api.edit(clientEvidence={"prometheus": {"url": URL}, "target": "4.1"})
    await rig.controller.reconcile(KEY)
    assert rig.api.condition("ClientsCompatible")["status"] == "Unknown"
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert len(rig.prometheus) == readings + 1
    assert rig.api.status["clients"]["target"] == "4.1"


async def test_evidence_of_one_prometheus_does_not_count_for_another() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.evidence = lambda _: EvidenceAnswer(AWAY)
    for prometheus in ({"url": "https://another:9090"}, {"url": URL, "selector": 'namespace="other"'}):
        rig.api.edit(clientEvidence={"prometheus": prometheus, "target": "4.4"})
        await rig.controller.reconcile(KEY)
        assert rig.api.condition("ClientsCompatible")["status"] == "Unknown"
        await has_read()
    assert [(settings.url, settings.selector) for settings in rig.prometheus[1:]] == [
        ("https://another:9090", ""), (URL, 'namespace="other"'),
    ]  # fmt: skip


async def test_the_condition_about_clients_is_unknown_while_the_cluster_cannot_be_read() -> None:
    rig = rig_with()
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.kafka.away = True
    rig.seconds += 3600
    await rig.controller.reconcile(KEY)
    assert rig.api.condition("ClientsCompatible")["status"] == "Unknown"
