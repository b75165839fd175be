"""The verdict about clients in a status: bounded in size, unchanged while nothing changes, never more than the evidence
shows.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise

from kafkafeatures.api.client_status import ClientBlocker, ClientSender, ClientsStatus
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, Status, StatusCondition
from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.evidence import Scrape
from kafkafeatures.core.clients.reading import ClientsReading
from kafkafeatures.core.clients.senders import Sender, SenderKind
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.report.bounds import bounded
from kafkafeatures.core.report.clients_document import clients_reported, clients_unread
from kafkafeatures.core.report.events import events_between
from tests.kafkafeatures.core.evidences import (
    END,
    MISSING,
    PRODUCE_2,
    REPORT,
    STALE,
    covered,
    reading,
    scrapes,
    with_clients,
)
from tests.kafkafeatures.worlds import NOW, OLD, answer, known, node, observation

IDS = (1, 2, 3)
Clients = Known[ClientsReading] | Unknown


def with_condition(status: str) -> Status:
    """Build a status with only the condition ClientsCompatible."""
    condition = StatusCondition(
        type=Condition.CLIENTS_COMPATIBLE, status=status, reason="NoBlockingClients", message="m",
        last_transition_time=stamp(NOW),
    )  # fmt: skip
    return replace(EMPTY, conditions=(condition,))


def observation_with(clients: Clients) -> Observation:
    """Observe three brokers of Kafka 3.9, with this evidence about clients."""
    brokers = [node(id_, said=answer(OLD), written=OLD) for id_ in IDS]
    return with_clients(replace(observation(*brokers), registered_brokers=known(frozenset(IDS))), clients)


def reported(clients: Clients, previous: Status = EMPTY, now: datetime = NOW) -> tuple[str, Reason, ClientsStatus]:
    conditions, section = clients_reported(REPORT, observation_with(clients), previous, now)
    condition = conditions[Condition.CLIENTS_COMPATIBLE]
    assert condition is not None
    assert section is not None
    return condition[0], condition[1], section


def test_without_client_evidence_there_is_neither_a_condition_nor_a_section() -> None:
    assert clients_reported(None, observation_with(covered(IDS)), EMPTY, NOW) == ({}, None)


def test_each_verdict_has_its_reason() -> None:
    short = reading(IDS, *(scrape for id_ in IDS for scrape in scrapes(id_, since=12)))
    cases: dict[tuple[str, Reason, str], Clients] = {
        ("True", Reason.NO_BLOCKING_CLIENTS, "Ready"): covered(IDS),
        ("False", Reason.BLOCKING_CLIENTS, "Blocked"): covered(IDS, PRODUCE_2),
        ("Unknown", Reason.EVIDENCE_MISSING, "Unknown"): MISSING,
        ("Unknown", Reason.EVIDENCE_STALE, "Unknown"): STALE,
        ("Unknown", Reason.EVIDENCE_INCOMPLETE, "Unknown"): short,
    }
    for expected, clients in cases.items():
        status, reason, section = reported(clients)
        assert (status, reason, section.verdict) == expected


def test_a_gap_has_its_broker_and_the_day_from_which_the_verdict_can_be_ready() -> None:
    """The evidence of broker 1 began 12 days ago; the window is 35 days, so it is covered in 23 days. The status has
    whole days.
    """
    short = reading(IDS, *scrapes(1, since=12), *scrapes(2), *scrapes(3))
    _, _, section = reported(short)
    (gap,) = section.gaps
    assert (gap.broker, gap.cause) == (1, "BeforeStart")
    assert section.ready_from is not None
    assert section.ready_from == stamp((NOW + timedelta(days=24)).replace(hour=0, minute=0, second=0))


def test_counters_that_grow_change_the_section_once_a_day_and_another_verdict_changes_it_at_once() -> None:
    _, _, section = reported(covered(IDS, PRODUCE_2))
    status = replace(EMPTY, clients=section)
    grown = [*scrapes(1, PRODUCE_2), *scrapes(2), *scrapes(3)]
    last = next(scrape for scrape in reversed(grown) if scrape.broker == 1)
    grown = [_doubled(scrape) if scrape is last else scrape for scrape in grown]
    assert reported(reading(IDS, *grown), status)[2] == section
    assert reported(reading(IDS, *grown), status, NOW + timedelta(days=1))[2] != section
    assert reported(covered(IDS), status)[2] != section


def _doubled(scrape: Scrape) -> Scrape:
    return replace(scrape, counters={key: 2 * count for key, count in scrape.counters.items()})


def sender(client_id: str, owner: str = "", requests: int = 1) -> Sender:
    return Sender(
        SenderKind.CLIENT, client_id, "User:a", (), (), (PRODUCE_2,), requests, END, owner, "upgrade the library", 0
    )


def with_senders(*senders: Sender, problems: tuple[str, ...] = ()) -> Known[ClientsReading]:
    evidence = covered(IDS, PRODUCE_2)
    return replace(evidence, value=replace(evidence.value, senders=senders, problems=problems))


def test_another_sender_owner_or_problem_changes_the_section_at_once_and_another_order_does_not() -> None:
    _, _, section = reported(with_senders(sender("a"), sender("b")))
    assert [(entry.client_id, entry.versions) for entry in section.senders] == [
        ("a", "Produce v2"),
        ("b", "Produce v2"),
    ]
    status = replace(EMPTY, clients=section)
    assert reported(with_senders(sender("b", requests=3), sender("a")), status)[2] == section
    assert reported(with_senders(sender("a"), sender("c")), status)[2] != section
    assert reported(with_senders(sender("a", "Payments"), sender("b")), status)[2] != section
    assert reported(with_senders(sender("a"), sender("b"), problems=("x: not used",)), status)[2] != section


def test_a_missing_scrape_has_the_remedy_of_its_source() -> None:
    evidence = reading(IDS, *scrapes(1), *scrapes(2))
    for source, remedy in ((SourceKind.PROMETHEUS, "have Prometheus scrape"), (SourceKind.CONFIG_MAP, "the ConfigMap")):
        conditions, _ = clients_reported(REPORT, observation_with(replace(evidence, source=source)), EMPTY, NOW)
        condition = conditions[Condition.CLIENTS_COMPATIBLE]
        assert condition is not None
        assert remedy in condition[2]


def test_a_verdict_says_until_when_it_counts() -> None:
    _, _, section = reported(covered(IDS))
    assert section.evaluated_at is not None
    assert section.valid_until is not None
    assert section.evaluated_at <= NOW.isoformat() < section.valid_until


def test_the_section_has_room_in_a_status_and_shrinks_where_there_is_none() -> None:
    _, _, section = reported(covered(IDS, PRODUCE_2))
    full = replace(section, blockers=_blockers(20), gaps=())
    assert len(json.dumps(replace(EMPTY, clients=full).as_json())) < 8 * 1024
    crowded = replace(EMPTY, clients=replace(full, blockers=_blockers(200)))
    small = bounded(crowded, 0)
    assert len(json.dumps(small.as_json())) < 32 * 1024
    assert small.clients is not None
    assert small.clients.blockers
    names = tuple(replace(entry, client_id="\u00e9" * 60) for entry in _senders(200))
    small = bounded(replace(EMPTY, clients=replace(section, blockers=(), senders=names)), 0)
    assert len(json.dumps(small.as_json())) < 32 * 1024
    assert small.clients is not None
    assert small.clients.senders
    assert small.clients.blocker_count == 1


def _senders(count: int) -> tuple[ClientSender, ...]:
    _, _, section = reported(with_senders(sender("a")))
    return section.senders * count


def _blockers(count: int) -> tuple[ClientBlocker, ...]:
    _, _, section = reported(covered(IDS, PRODUCE_2))
    (blocker,) = section.blockers
    return tuple(replace(blocker, api=f"{'x' * 60}{number}", brokers="1, " * 33) for number in range(count))


def test_an_event_is_made_when_the_first_client_breaks_and_when_it_is_proven_that_none_does() -> None:
    statuses = [EMPTY, *map(with_condition, ("False", "False", "Unknown", "True", "False"))]
    reasons = [[event.reason for event in events_between(*pair)] for pair in pairwise(statuses)]
    assert reasons == [["FirstBlockingClient"], [], [], ["ClientsCompatible"], ["FirstBlockingClient"]]


def test_while_the_cluster_cannot_be_read_the_condition_is_unknown_if_there_was_one() -> None:
    assert clients_unread(EMPTY) == {}
    condition = clients_unread(with_condition("True"))[Condition.CLIENTS_COMPATIBLE]
    assert condition is not None
    assert condition[:2] == ("Unknown", Reason.EVIDENCE_STALE)
