"""A roll is held until it is proven that no client breaks, or a consent names the versions that break."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import CounterKey
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.ports import EvidenceAnswer
from kafkafeatures.reconcile.client_reading import VALID_FOR
from tests.kafkafeatures.core.evidences import FETCH_3, PRODUCE_2, scrapes
from tests.kafkafeatures.reconcile.test_client_evidence import has_read
from tests.kafkafeatures.reconcile.test_stateful_sets import Rig
from tests.simulated.orders import KEY
from tests.simulated.requests import Fault, Request, no_faults

AWAY = EvidenceAnswer(Failure(FailureKind.UNREACHABLE, "Prometheus", "Prometheus cannot be reached", "check the URL"))
PRODUCE = "client-breaks:Produce:2"


def gated(*used: CounterKey, policy: str = "Gate") -> Rig:
    """Set up brokers of Kafka 4.2 whose image was changed to 4.4, and evidence that clients use these API versions."""
    rig = Rig()
    prometheus = {"url": "https://prometheus:9090"}
    rig.api.edit(clientEvidence={"prometheus": prometheus, "target": "4.4", "policy": policy})
    rig.evidence = lambda window: answer(window, *used)
    return rig


def answer(window: EvidenceWindow, *used: CounterKey) -> EvidenceAnswer:
    first, *other_ids = (1, 2, 3)
    unused = (scrape for id_ in other_ids for scrape in scrapes(id_, end=window.end))
    return EvidenceAnswer((*scrapes(first, *used, end=window.end), *unused))


async def work(rig: Rig, times: int = 1, seconds: float = 60.0) -> None:
    for _ in range(times):
        await rig.controller.reconcile(KEY)
        await has_read()
        rig.pass_time(timedelta(seconds=seconds))


def blockers(rig: Rig) -> list[dict[str, Any]]:
    return list(rig.api.status.get("blockers", ()))


async def test_a_roll_begins_once_evidence_was_read() -> None:
    rig = gated()
    await rig.controller.reconcile(KEY)
    assert rig.workloads.evictions == []
    assert [blocker["kind"] for blocker in blockers(rig)] == ["Client"]
    assert "being read" in rig.api.condition("Ready")["message"]
    await work(rig, 2)
    assert rig.workloads.evictions == ["broker-0"]


async def test_without_evidence_a_roll_waits_and_with_report_it_does_not() -> None:
    for policy, evictions in (("Gate", []), ("Report", ["broker-0"])):
        rig = gated(policy=policy)
        rig.evidence = lambda _: AWAY
        await work(rig, 5)
        assert rig.workloads.evictions == evictions
    assert rig.api.condition("ClientsCompatible")["reason"] == "EvidenceMissing"


async def test_a_consent_to_break_clients_is_used_once_and_stays_valid_for_that_revision_alone() -> None:
    rig = gated(PRODUCE_2)
    await work(rig, 3)
    assert rig.workloads.evictions == []
    assert rig.api.condition("Stalled")["reason"] == "ConsentRequired"
    assert f"add {PRODUCE} to consents" in rig.api.condition("Stalled")["message"]
    rig.api.edit(consents=[PRODUCE])
    await work(rig)
    assert rig.workloads.evictions == ["broker-0"]
    assert rig.api.status["spentConsents"] == [PRODUCE]
    assert [revision["clientBreaks"] for revision in rig.api.status["rollout"]["revisions"]] == [[PRODUCE]]
    rig.workloads.set_image("broker", "kafka:4.4.1")  # another revision, of the same release
    rig.pass_time(timedelta(minutes=20))
    await work(rig, 5)
    assert rig.workloads.evictions == ["broker-0"]
    assert rig.api.condition("Stalled")["reason"] == "ConsentSpent"


async def test_a_consent_for_one_api_version_does_not_cover_another_version_that_clients_use() -> None:
    rig = gated(PRODUCE_2)
    rig.api.edit(consents=[PRODUCE])
    rig.evidence = lambda window: answer(window, PRODUCE_2, FETCH_3)
    await work(rig, 4)
    assert rig.workloads.evictions == []
    assert "client-breaks:Fetch:3" in rig.api.condition("Stalled")["message"]


async def test_evidence_that_becomes_too_old_while_the_intent_is_written_holds_the_eviction() -> None:
    rig = gated()
    rig.workloads.set_image("broker", "kafka:4.2.0")  # nothing to restart yet
    await work(rig, 2, seconds=1)
    began = rig.api.now - timedelta(seconds=2)  # of the reading of evidence: `work` let a second pass twice
    rig.evidence = lambda _: AWAY
    rig.workloads.set_image("broker", "kafka:4.4.0")
    rig.pass_time(began + timedelta(seconds=VALID_FOR - 0.5) - rig.api.now)

    def slow(request: Request) -> Fault | None:
        if request.method == "PUT" and request.path.endswith("/status"):
            rig.api.wait(timedelta(seconds=0.9))  # the evidence counts for 0.5 s more
        return None

    rig.api.faults = slow
    await rig.controller.reconcile(KEY)
    rig.api.faults = no_faults
    assert rig.workloads.evictions == []
    assert "older than 30 minutes" in rig.api.condition("Ready")["message"]


async def test_levels_are_raised_whatever_clients_use() -> None:
    rig = gated(PRODUCE_2)
    rig.workloads.set_image("broker", "kafka:4.2.0")  # no node has to be restarted
    rig.api.edit(features={"levels": [{"name": "metadata.version", "level": 22}]})
    await work(rig, 4)
    levels = {feature["name"]: feature.get("finalized") for feature in rig.api.status["features"]}
    assert levels["metadata.version"] == 22
    assert rig.api.condition("ClientsCompatible")["reason"] == "BlockingClients"
