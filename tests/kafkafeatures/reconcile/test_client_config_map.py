"""Evidence about clients from a ConfigMap, on the simulated API server: verdict, age, senders, and what is refused."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.clients.evidence import CounterKey, Scrape
from kafkafeatures.core.ports import EvidenceAnswer
from kafkafeatures.core.report.clients_document import MOST_NAME, MOST_SENDERS
from kafkafeatures.reconcile.client_evidence import EVERY, RETRY
from tests.clients.exporters import answer_of
from tests.clients.request_lines import body, plain
from tests.kafkafeatures.core.evidences import END, PRODUCE_2, scrapes
from tests.kafkafeatures.reconcile.rig import Rig
from tests.kafkafeatures.reconcile.test_client_evidence import AWAY, URL, answer, brokers_of, condition, has_read
from tests.simulated.orders import KEY, Orders
from tests.simulated.requests import Fault, Request, refusal

MINUTE = 60_000
NAME = "kafka-clients"
REF = {"configMapRef": {"name": NAME}}
PROMETHEUS = {"prometheus": {"url": URL}}
OWNERS = b"owners:\n- {team: Payments, principal: 'User:pay*'}\n"


def rig_with(**evidence: Any) -> Rig:
    api = Orders()
    api.edit(clientEvidence={"target": "4.4", **REF, **evidence})
    return Rig(api)


def put(rig: Rig, entries: Mapping[str, bytes]) -> None:
    """Write the ConfigMap: entries that are text as data, others as binaryData."""
    is_text = {name: not name.endswith(".gz") for name in entries}
    data = {name: entry.decode() for name, entry in entries.items() if is_text[name]}
    binary = {name: b64encode(entry).decode() for name, entry in entries.items() if not is_text[name]}
    rig.api.server.put(KEY.namespace, "configmaps", NAME, data=data, binaryData=binary)


def entries_of(given: Iterable[Scrape]) -> dict[str, bytes]:
    return {
        f"{scrape.broker}-{scrape.time // 1000}.prom.gz": gzip.compress(answer_of(scrape).encode()) for scrape in given
    }


def evidence_of(rig: Rig, *used: CounterKey, age: int = 0) -> dict[str, bytes]:
    """Return entries without a gap, whose newest scrapes are `age` minutes old. `used`: API versions that clients of
    the first broker used.
    """
    first, *other_ids = brokers_of(rig)
    end = END - age * MINUTE
    return entries_of(
        [*scrapes(first, *used, end=end), *(scrape for id_ in other_ids for scrape in scrapes(id_, end=end))]
    )


def request_log(folder: Path, *texts: str) -> dict[str, bytes]:
    """Return reduced request logs of broker 1 with these requests, an hour before the end of the window."""
    log = folder / "kafka-request.log"
    log.write_text("".join(plain(END - 60 * MINUTE, text) + "\n" for text in texts))
    assert main(["clients", "reduce", "--broker", "1", "--to", str(folder / "reduced"), str(log)]) == Exit.DONE
    return {f"1-{path.name}": path.read_bytes() for path in (folder / "reduced").rglob("*.gz")}


def pass_time(rig: Rig) -> None:
    """Let a minute pass."""
    rig.now += timedelta(minutes=1)
    rig.seconds += 60


def message(rig: Rig) -> str:
    text: str = rig.api.condition("ClientsCompatible")["message"]
    return text


async def test_scrapes_in_a_config_map_make_the_clients_compatible() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig))
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert rig.api.status["clients"]["verdict"] == "Ready"
    assert "problems" not in rig.api.status["clients"]
    assert not rig.prometheus


async def test_scrapes_in_a_config_map_name_the_versions_that_break() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig, PRODUCE_2))
    assert await condition(rig) == ("False", "BlockingClients")
    (blocker,) = rig.api.status["clients"]["blockers"]
    assert (blocker["api"], blocker["version"]) == PRODUCE_2


async def test_scrapes_count_until_the_newest_is_half_an_hour_old_although_the_config_map_is_read_again() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig, age=23))
    assert await condition(rig) == ("True", "NoBlockingClients")
    for _ in range(7):  # from 23 to 30 minutes, by the wall clock
        pass_time(rig)
        await rig.controller.reconcile(KEY)
        await has_read()
        assert rig.api.condition("ClientsCompatible")["reason"] == "NoBlockingClients"
    pass_time(rig)
    await rig.controller.reconcile(KEY)
    assert rig.api.condition("ClientsCompatible")["reason"] == "EvidenceStale"


async def test_scrapes_that_are_older_than_half_an_hour_are_stale_with_their_time() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig, age=31))
    assert await condition(rig) == ("Unknown", "EvidenceStale")
    assert "is of 2026-01-02 02:33 UTC, more than 30 minutes ago" in message(rig)
    assert "at least every 20 minutes" in message(rig)
    put(rig, evidence_of(rig))
    rig.seconds += RETRY
    assert await condition(rig) == ("True", "NoBlockingClients")


async def test_a_config_map_that_is_written_every_20_minutes_is_never_stale() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig))
    assert await condition(rig) == ("True", "NoBlockingClients")
    for minute in range(1, 100):
        pass_time(rig)
        if minute % 20 == 0:
            put(rig, evidence_of(rig, age=-minute))
        await rig.controller.reconcile(KEY)
        assert rig.api.condition("ClientsCompatible")["reason"] == "NoBlockingClients"
        await has_read()


async def test_a_damaged_entry_leaves_a_gap_and_its_reason_is_in_the_status() -> None:
    rig = rig_with()
    entries = evidence_of(rig)
    first = brokers_of(rig)[0]
    damaged = [name for name in entries if name.startswith(f"{first}-")]
    put(rig, {**entries, **{name: entries[name][:-9] for name in damaged}})
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert f"broker {first} without evidence" in message(rig)
    assert "status.clients.problems says why entries are not used" in message(rig)
    problems = rig.api.status["clients"]["problems"]
    assert len(problems) == 10  # at most: nine, and a line for the others
    assert problems[0] == f"{min(damaged)}: not used: it is cut off or damaged"
    assert problems[-1] == f"and {len(damaged) - 9} more that were not used"


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (None, "ConfigMap kafka-clients: not found"),
        ({}, "the ConfigMap kafka-clients has no scrape that can be used; write the answers of all exporters to it"),
        ({"owners.yaml": OWNERS}, "the ConfigMap kafka-clients has no scrape that can be used; write"),
        ({"x.prom": b"x"}, "that can be used: x.prom: not used: expected BROKER-TIME.prom, such as 3-1764374400.prom"),
        ({f"1-{END // 1000 + 3600}.prom": b"x"}, "its time is in the future"),
    ],
    ids=["no ConfigMap", "empty", "owners alone", "bad name", "future"],
)
async def test_without_a_scrape_in_the_config_map_evidence_is_missing(
    entries: Mapping[str, bytes] | None, text: str
) -> None:
    rig = rig_with()
    if entries is not None:
        put(rig, entries)
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert text in message(rig)


async def test_a_config_map_that_the_operator_may_not_read_is_named() -> None:
    rig = rig_with()
    rig.api.server.forbidden.add("configmaps")
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert "ConfigMap kafka-clients: the operator is not authorized to read it" in message(rig)


async def test_an_api_server_that_does_not_answer_leaves_the_evidence_missing_and_is_asked_again() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig))

    def unavailable(request: Request) -> Fault | None:
        return Fault(refusal(504, "timeout")) if "/configmaps/" in request.path else None

    rig.api.faults = unavailable
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert "the API server does not answer" in message(rig)
    rig.api.faults = lambda _: None
    rig.seconds += RETRY
    assert await condition(rig) == ("True", "NoBlockingClients")


async def test_senders_and_their_owners_are_in_the_status_and_change_no_verdict(tmp_path: Path) -> None:
    rig = rig_with()
    texts = (body(client="pay-7", principal="User:pay"), body("FETCH", 3, "pay-7", principal="User:pay"))
    names = {**request_log(tmp_path, *texts, body("FETCH", 12, "new")), "owners.yaml": OWNERS}
    put(rig, {**evidence_of(rig), **names})
    assert await condition(rig) == ("True", "NoBlockingClients")
    (sender,) = rig.api.status["clients"]["senders"]
    assert sender.pop("remedy").startswith("raise its configured version")
    assert sender == {
        "clientId": "pay-7", "principal": "User:pay", "versions": "Fetch v3, Produce v2",
        "lastSeen": "2026-01-02T00:00:00Z", "owner": "Payments",
    }  # fmt: skip
    version = rig.api.object["metadata"]["resourceVersion"]
    rig.seconds += EVERY
    await condition(rig)
    assert rig.api.object["metadata"]["resourceVersion"] == version


async def test_the_status_has_the_first_senders_alone_with_names_that_are_short_and_printable(tmp_path: Path) -> None:
    rig = rig_with()
    hostile = "\x1b[2J\u202e" + "x" * 1000
    names = request_log(tmp_path, *(body(client=f"{number}{hostile}", principal=hostile) for number in range(30)))
    put(rig, {**evidence_of(rig), **names})
    await condition(rig)
    senders = rig.api.status["clients"]["senders"]
    assert len(senders) == MOST_SENDERS
    assert all(len(text.encode()) <= MOST_NAME and text.isprintable() for sender in senders for text in
               (sender["clientId"], sender["principal"]))  # fmt: skip


async def test_a_scrape_with_an_impossible_count_is_refused_and_ends_no_reconciliation() -> None:
    rig = rig_with()
    entries = evidence_of(rig, PRODUCE_2)
    last = max(name for name in entries if name.startswith(f"{brokers_of(rig)[0]}-"))
    api, version = PRODUCE_2
    label = f'request="{api}",version="{version}"'.encode()
    text = b"\n".join(
        line.rpartition(b" ")[0] + b" 1e300" if label in line else line
        for line in gzip.decompress(entries[last]).split(b"\n")
    )
    put(rig, {**entries, last: gzip.compress(text)})
    assert await condition(rig) == ("Unknown", "EvidenceStale")  # without its last scrape, evidence ends too early
    (problem,) = rig.api.status["clients"]["problems"]
    assert problem.startswith(f"{last}: not used: it has 1e+300 for Produce v2, which is not a count")


@pytest.mark.parametrize("number", [-1, 10**15, 10**40])
async def test_a_log_with_an_impossible_version_or_time_is_named_and_ends_no_reconciliation(
    number: int, tmp_path: Path
) -> None:
    rig = rig_with()
    (data,) = request_log(tmp_path, body()).values()
    header, row = gzip.decompress(data).splitlines()
    sent = dict(zip(json.loads(header)["columns"], json.loads(row), strict=True))
    rows = {f"{name}.jsonl.gz": [*{**sent, name: number}.values()] for name in ("last", "version")}
    entries = {
        name: gzip.compress(b"%b\n%b\n" % (header, json.dumps(changed).encode())) for name, changed in rows.items()
    }
    put(rig, {**evidence_of(rig), **entries})
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert [line.split(";")[0] for line in rig.api.status["clients"]["problems"]] == [
        f"{name}: not used: it is not a reduced request log" for name in sorted(entries)
    ]


async def test_logs_and_owners_that_cannot_be_read_leave_the_verdict_and_are_named() -> None:
    rig = rig_with()
    put(rig, {**evidence_of(rig), "1-hour.jsonl.gz": b"x", "owners.yaml": b"[]"})
    assert await condition(rig) == ("True", "NoBlockingClients")
    log, owners = rig.api.status["clients"]["problems"]
    assert log.startswith("1-hour.jsonl.gz: not used: it is cut off or damaged; make it again with clients reduce")
    assert owners.startswith("owners.yaml: not used: ")
    assert owners.endswith("; clients are shown without owners")


async def test_beside_a_prometheus_the_config_map_names_the_senders(tmp_path: Path) -> None:
    rig = rig_with(**PROMETHEUS)
    rig.evidence = lambda _: answer(rig, PRODUCE_2)
    put(rig, {**request_log(tmp_path, body(client="checkout", principal="User:pay")), "owners.yaml": OWNERS})
    assert await condition(rig) == ("False", "BlockingClients")
    (sender,) = rig.api.status["clients"]["senders"]
    assert (sender["clientId"], sender["owner"]) == ("checkout", "Payments")


async def test_beside_a_prometheus_scrapes_in_the_config_map_are_refused() -> None:
    rig = rig_with(**PROMETHEUS)
    rig.evidence = lambda _: answer(rig)
    entries = evidence_of(rig)
    put(rig, entries)
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert not rig.prometheus
    assert f"remove the entry {min(entries)} and {len(entries) - 1} more like it, or spec.client" in message(rig)


async def test_beside_a_prometheus_a_config_map_that_is_missing_leaves_the_verdict_and_is_named() -> None:
    rig = rig_with(**PROMETHEUS)
    rig.evidence = lambda _: answer(rig)
    assert await condition(rig) == ("True", "NoBlockingClients")
    assert rig.api.status["clients"]["problems"] == [
        "ConfigMap kafka-clients: not used: not found; clients are not named"
    ]


async def test_a_prometheus_that_is_away_is_not_replaced_by_a_config_map(tmp_path: Path) -> None:
    rig = rig_with(**PROMETHEUS)
    rig.evidence = lambda _: EvidenceAnswer(AWAY)
    put(rig, request_log(tmp_path, body()))
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
    assert "Prometheus cannot be reached" in message(rig)


async def test_evidence_is_read_anew_for_another_config_map() -> None:
    rig = rig_with()
    put(rig, evidence_of(rig))
    assert await condition(rig) == ("True", "NoBlockingClients")
    rig.api.edit(clientEvidence={"target": "4.4", "configMapRef": {"name": "other"}})
    assert await condition(rig) == ("Unknown", "EvidenceMissing")
