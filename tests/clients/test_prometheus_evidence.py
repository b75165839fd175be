"""Evidence from a Prometheus: the verdict on its scrapes, and samples that look like evidence and are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import GapCause
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.clients.verdict import ClientCheck, ClientVerdict, UseKind
from kafkafeatures.prometheus.api import HttpAnswer, PrometheusFailed
from kafkafeatures.prometheus.brokers import BrokerLabel, BrokersNotNamed, SeveralClusters, broker_id
from kafkafeatures.prometheus.queries import is_selector
from tests.amounts import share
from tests.clients.fake_prometheus import (
    Exposed,
    FakePrometheus,
    ScrapedTarget,
    checked_by,
    evidence_of,
    target_of,
)
from tests.clients.histories import BEGIN, DAY, DAYS, END, GONE, HOUR, History, Process
from tests.clients.test_prometheus_soundness import relabelled, stuck, with_hole, with_retention

QUIET = History({1: (Process(BEGIN - DAY, END),), 2: (Process(BEGIN - 2 * DAY, END),)})
"""Two brokers, which run since before the window; no client uses a removed version."""
USE = BEGIN + 10 * DAY + 300
USED = History({1: (Process(BEGIN - DAY, END, uses=(USE,)),), 2: QUIET.brokers[2]})
"""Broker 1 is sent a removed version once."""
ROLLED = History({1: (Process(BEGIN - DAY, END - 9 * DAY), Process(END - 9 * DAY + 2, END)), 2: QUIET.brokers[2]})
"""Broker 1 restarts nine days before the end, and is away for two minutes."""


def targets(history: History = QUIET) -> list[ScrapedTarget]:
    return [target_of(history, broker) for broker in history.brokers]


def check(*scraped: ScrapedTarget, days: int = DAYS) -> ClientCheck:
    return checked_by(FakePrometheus(scraped), (1, 2), days=days)


def causes(result: ClientCheck, broker: int = 1) -> list[GapCause]:
    assert result.brokers is not None
    return [gap.cause for gap in result.brokers[broker - 1].gaps]


def problems(*scraped: ScrapedTarget) -> str:
    return "\n".join(evidence_of(FakePrometheus(scraped)).problems)


def without(target: ScrapedTarget, is_dropped: Callable[[str, Mapping[str, str]], bool]) -> ScrapedTarget:
    """An exporter that does not expose some samples."""

    def expose(minute: int) -> Exposed | None:
        samples = target.expose(minute)
        return samples and [sample for sample in samples if not is_dropped(sample[0], sample[1])]

    return replace(target, expose=expose)


def labelled(target: ScrapedTarget, **labels: str) -> ScrapedTarget:
    return replace(target, labels={**target.labels, **labels})


def test_a_cluster_without_old_clients_is_ready() -> None:
    assert check(*targets()).verdict is ClientVerdict.READY


def test_a_restart_of_two_minutes_leaves_no_gap() -> None:
    assert check(*targets(ROLLED)).verdict is ClientVerdict.READY


def test_a_process_of_half_an_hour_between_two_others_is_found_and_its_absence_is_a_gap() -> None:
    spans = ((BEGIN - DAY, END - 9 * DAY + 3), (END - 9 * DAY + 5, END - 9 * DAY + 40), (END - 9 * DAY + 42, END))
    first, short, last = (Process(*span) for span in spans)
    other = targets()[1]
    hosts = [
        labelled(target_of(History({1: (process,)}), 1), instance=f"10.0.0.{number}:9404")
        for number, process in enumerate((first, short, last))
    ]
    assert check(*hosts, other).verdict is ClientVerdict.READY
    without_short = check(hosts[0], hosts[2], other)
    assert causes(without_short) == [GapCause.RESTART]
    used = replace(short, uses=(short.start + 9,))
    hosts[1] = labelled(target_of(History({1: (used,)}), 1), instance="10.0.0.1:9404")
    assert check(*hosts, other).verdict is ClientVerdict.BLOCKED


def test_an_old_client_blocks_with_the_day_on_which_it_was_used() -> None:
    result = check(*targets(USED))
    assert result.verdict is ClientVerdict.BLOCKED
    (use,) = result.uses
    assert (use.kind, use.name, use.version, use.brokers) == (UseKind.REMOVED, *GONE, (1,))
    assert use.after <= USE * MINUTE <= use.until
    assert use.until - use.after <= DAY * MINUTE


def test_a_use_before_the_window_does_not_block() -> None:
    history = History({1: (Process(BEGIN - 3 * DAY, END, uses=(BEGIN - DAY,)),), 2: QUIET.brokers[2]})
    assert check(*targets(history)).verdict is ClientVerdict.READY


def test_a_removed_version_on_one_broker_makes_no_contradiction_at_another_that_was_restarted() -> None:
    """Since it was used, counters are read at dates: those of some APIs alone, while the first scrape of the process
    that began in the window has all.
    """
    for use, verdict in ((BEGIN - DAY, ClientVerdict.READY), (USE, ClientVerdict.BLOCKED)):
        used = Process(BEGIN - 3 * DAY, END, uses=(use,))
        result = check(*targets(History({1: ROLLED.brokers[1], 2: (used,)})))
        assert (result.verdict, causes(result), causes(result, 2)) == (verdict, [], [])


def test_a_process_older_than_the_samples_of_prometheus_is_covered_and_its_use_has_no_date() -> None:
    """The last sample counts all requests since the start of the process; only the time of the use is lost."""
    keeps_a_day = with_retention(END - DAY)
    assert check(*map(keeps_a_day, targets())).verdict is ClientVerdict.READY
    result = check(*map(keeps_a_day, targets(USED)))
    assert [use.kind for use in result.uses] == [UseKind.MAYBE_BEFORE]
    assert result.verdict is ClientVerdict.UNKNOWN


def test_a_hole_within_one_process_is_no_gap_and_a_hole_around_a_restart_is_a_gap() -> None:
    """The counters of a process survive a hole; the last requests before a restart do not."""
    broker, other = targets(ROLLED)
    within, around = with_hole(END - 20 * DAY, DAY), with_hole(END - 9 * DAY - 8, 20)
    assert check(within(broker), other).verdict is ClientVerdict.READY
    assert causes(check(around(broker), other)) == [GapCause.RESTART]


def test_a_hole_of_more_than_five_minutes_at_the_end_of_the_window_is_a_gap() -> None:
    broker, other = targets()
    assert check(with_hole(END - 4, 9)(broker), other).verdict is ClientVerdict.READY
    assert causes(check(with_hole(END - 7, 9)(broker), other)) == [GapCause.STALE]


def test_an_exporter_that_repeats_an_old_answer_is_no_evidence() -> None:
    """The exporter answers as an hour before the use of the removed version: the use would not be seen."""
    broker, other = targets(USED)
    assert causes(check(stuck(USE - HOUR)(broker), other)) == [GapCause.NO_EVIDENCE]
    assert "no two scrapes with other counts within 5 minutes" in problems(stuck(USE - HOUR)(broker))


def test_samples_that_prometheus_dropped_make_a_gap() -> None:
    broker, other = targets(USED)
    dropping = relabelled("2")  # the removed version of USED
    assert check(dropping(broker), other).verdict is ClientVerdict.UNKNOWN
    assert "exposed 10 samples, of which Prometheus has 9: what was dropped" in problems(dropping(broker))


@pytest.mark.parametrize("count", ["NaN", "+Inf"])
def test_a_count_that_is_no_number_of_samples_makes_a_gap(count: str) -> None:
    class CountsWrongly(FakePrometheus):
        def __call__(self, path: str, form: bytes) -> HttpAnswer:
            answer = super().__call__(path, form)
            if b"count%28last_over_time" not in form:
                return answer
            document = json.loads(answer.body)
            for series in document["data"]["result"]:
                series["value"][1] = count
            return replace(answer, body=json.dumps(document).encode())

    evidence = evidence_of(CountsWrongly(targets()))
    assert evidence.scrapes == ()
    assert f"of which Prometheus has {float(count):.0f}: what was dropped" in evidence.problems[0]


def test_without_the_number_of_samples_nothing_shows_that_none_was_dropped() -> None:
    class WithoutNumber(FakePrometheus):
        def __call__(self, path: str, form: bytes):  # type: ignore[no-untyped-def]  # as the class has it
            result = super().__call__(path, form)
            return replace(result, body=result.body.replace(b'"scrape_samples_scraped"', b'"scrape_series_added"'))

    evidence = evidence_of(WithoutNumber(targets()))
    assert evidence.scrapes == ()
    assert "has no scrape_samples_scraped" in evidence.problems[0]


def test_a_target_without_the_counter_of_api_versions_is_no_evidence() -> None:
    broker, other = targets()
    silent = without(broker, lambda _, labels: labels.get("request") == "ApiVersions")
    assert causes(check(silent, other)) == [GapCause.NO_EVIDENCE]


def test_a_process_that_may_be_of_kafka_4_is_no_evidence() -> None:
    """The purgatory of elections is the only sign of a release before Kafka 4.0, which counts removed versions."""
    broker, other = targets()
    assert causes(check(without(broker, lambda name, _: "purgatory" in name), other)) == [GapCause.MAY_REFUSE]


def test_a_target_is_no_evidence_if_its_start_may_be_that_of_an_exporter_beside_the_broker() -> None:
    broker, other = targets()
    beside = without(broker, lambda name, _: name == "jmx_exporter_build_info")
    assert causes(check(beside, other)) == [GapCause.NO_EVIDENCE]
    assert "may be that of an exporter beside the broker" in problems(beside)


def test_a_broker_that_two_jobs_scrape_is_judged_as_one_broker() -> None:
    """The second job scrapes at another second, and goes on when the first scrapes no more."""

    def by_second_job(broker: ScrapedTarget) -> ScrapedTarget:
        return replace(labelled(broker, job="copy"), offset=42_000)

    broker, other = targets(USED)
    second = by_second_job(broker)
    assert check(broker, second, other) == check(broker, other)
    first_that_ended = with_hole(END - 9, 9)(broker)
    assert check(first_that_ended, second, other).verdict is ClientVerdict.BLOCKED
    quiet, other = targets(QUIET)
    assert check(quiet, by_second_job(quiet), other).verdict is ClientVerdict.READY


def test_one_broker_under_two_ids_is_a_contradiction() -> None:
    broker = targets()[0]
    result = check(broker, labelled(broker, broker_id="2"))
    assert [causes(result, number) for number in (1, 2)] == [[GapCause.CONTRADICTION]] * 2


def test_one_broker_under_two_ids_is_a_contradiction_also_if_the_second_is_scraped_from_a_later_day_on() -> None:
    """By then the process has counters that it did not have at first, and that are not read at dates."""
    start = END - 20 * DAY
    used = Process(start, END, uses=(start + 9,))
    broker = target_of(History({1: (used,)}), 1)
    result = check(broker, with_retention(start + 5 * DAY)(labelled(broker, broker_id="2")))
    assert [causes(result, number) for number in (1, 2)] == [[GapCause.CONTRADICTION]] * 2


def test_a_day_between_two_processes_with_one_id_is_a_gap() -> None:
    first, second = Process(BEGIN - DAY, END - 9 * DAY), Process(END - 8 * DAY, END)
    first_host = target_of(History({1: (first,)}), 1)
    second_host = labelled(target_of(History({1: (second,)}), 1), instance="elsewhere:9404")
    assert causes(check(first_host, second_host, targets()[1])) == [GapCause.RESTART]


def test_two_brokers_with_one_id_at_the_same_time_are_refused_as_several_clusters() -> None:
    other_cluster = labelled(target_of(History({1: (Process(BEGIN - 5 * DAY, END),)}), 1), instance="b:9404")
    with pytest.raises(SeveralClusters) as caught:
        check(*targets(), other_cluster)
    assert caught.value.labels == {"instance": ["b:9404", "kafka-1:9404"]}


@pytest.mark.parametrize("label", ["namespace", "strimzi_io_cluster", "kafka_cluster", "cluster_id", "env"])
def test_targets_of_several_clusters_are_refused_with_the_labels_that_differ(label: str) -> None:
    broker, other = targets()
    with pytest.raises(SeveralClusters) as caught:
        check(labelled(broker, **{label: "east"}), labelled(other, **{label: "west"}))
    assert caught.value.labels == {label: ["east", "west"]}


def test_a_selector_picks_one_of_several_clusters() -> None:
    east = [labelled(target, namespace="east") for target in targets()]
    west = [labelled(target, namespace="west") for target in targets(USED)]
    prometheus = FakePrometheus([*east, *west])
    assert checked_by(prometheus, (1, 2), selector='namespace="east"').verdict is ClientVerdict.READY
    assert checked_by(prometheus, (1, 2), selector='namespace=~"we.*"').verdict is ClientVerdict.BLOCKED


def test_a_prometheus_without_brokers_is_refused() -> None:
    with pytest.raises(PrometheusFailed, match="has no brokers with request counters"):
        check()


def test_too_many_processes_of_a_crashing_broker_are_refused() -> None:
    crashing = ScrapedTarget(
        {"job": "kafka", "instance": "a:9404", "broker_id": "1"},
        lambda minute: [
            ("process_start_time_seconds", {}, float(minute)),
            ("kafka_network_requestmetrics_requests_total", {"request": "ApiVersions", "version": "3"}, 1.0),
        ],
    )
    with pytest.raises(PrometheusFailed, match=r"shows \d+ processes of brokers: narrow the selector or the window"):
        check(crashing, days=1)


@settings(max_examples=share(60), deadline=None)
@given(st.data())
def test_answers_with_arbitrary_changes_give_a_verdict_or_a_known_error(data: st.DataObject) -> None:
    class Lying(FakePrometheus):
        def __call__(self, path: str, form: bytes) -> HttpAnswer:
            answer = super().__call__(path, form)
            return replace(answer, body=lied(data, answer.body))

    prometheus = Lying(targets())
    try:
        result = checked_by(prometheus, (1, 2), days=1)
    except (PrometheusFailed, SeveralClusters, BrokersNotNamed):
        return
    assert result.verdict in ClientVerdict


def lied(data: st.DataObject, body: bytes) -> bytes:
    """An answer in which series are missing, there twice, or have other values, times and labels."""
    document = json.loads(body)
    series = document["data"]["result"]
    for _ in range(data.draw(st.integers(0, 2)) if series else 0):
        entry = data.draw(st.sampled_from(series))
        samples = entry["values"] if "values" in entry else [entry["value"]]
        match data.draw(st.sampled_from(("drop", "repeat", "value", "time", "label", "name"))):
            case "drop" if len(series) > 1:
                series.remove(entry)
            case "repeat":
                series.append(entry)
            case "value" if samples:
                data.draw(st.sampled_from(samples))[1] = data.draw(
                    st.sampled_from(("NaN", "+Inf", "-1", "1e308", "0", "x", "1e-300"))
                )
            case "time" if samples:
                data.draw(st.sampled_from(samples))[0] = data.draw(st.sampled_from((0, -1e9, 1e300, 1.7e9, 1e12)))
            case "label":
                entry["metric"][data.draw(st.sampled_from(("version", "request", "id", "broker_id", "x")))] = "-7"
            case "name":
                entry["metric"].pop("__name__", None)
            case _:
                continue
    return json.dumps(document).encode()


def test_a_window_of_one_day_has_a_gap_before_the_start_of_a_process_of_90_minutes() -> None:
    history = History({1: (Process(END - 90, END),), 2: QUIET.brokers[2]})
    assert causes(check(*targets(history), days=1)) == [GapCause.BEFORE_START]


@pytest.mark.parametrize(
    ("labels", "number"),
    [
        ({"broker_id": "3"}, 3),
        ({"node_id": "12"}, 12),
        ({"broker_id": "kafka-3"}, None),
        ({"pod": "kafka-3"}, None),  # the number of a pod is not always the id of its broker
        ({"strimzi_io_cluster": "c", "pod": "c-pool-a-7"}, 7),
        ({"strimzi_io_cluster": "c", "kubernetes_pod_name": "c-kafka-0"}, 0),
        ({"strimzi_io_cluster": "c", "pod": "other-kafka-0"}, None),
    ],
)
def test_a_broker_id_is_taken_from_labels_of_known_installations_only(
    labels: Mapping[str, str], number: int | None
) -> None:
    assert broker_id(labels, None) == number


@pytest.mark.parametrize(
    ("rule", "number"),
    [
        (BrokerLabel("pod", ".*-([0-9]+)"), 3),
        (BrokerLabel("pod"), None),
        (BrokerLabel("rack"), 9),
        (BrokerLabel("zone"), None),
        (BrokerLabel("pod", "(kafka)-.*"), None),
        (BrokerLabel("pod", "kafka-3(x)?"), None),
    ],
)
def test_a_broker_id_is_taken_from_the_label_and_the_pattern_that_a_user_names(
    rule: BrokerLabel, number: int | None
) -> None:
    assert broker_id({"pod": "kafka-3", "rack": "9", "broker_id": "1"}, rule) == number


def test_targets_without_an_id_are_named_with_their_labels() -> None:
    unnamed = replace(targets()[0], labels={"job": "kafka", "instance": "10.0.0.1:9404", "pod": "kafka-0"})
    with pytest.raises(BrokersNotNamed) as caught:
        check(unnamed)
    assert caught.value.labels == unnamed.labels
    (problem,) = evidence_of(FakePrometheus([*targets(), unnamed])).problems
    assert "no label shows one broker id" in problem


def test_the_id_that_kafka_exposes_takes_the_place_of_a_missing_label_and_contradicts_a_wrong_one() -> None:
    def with_app_info(target: ScrapedTarget, number: str) -> ScrapedTarget:
        sample = ("kafka_server_app_info_start_time_ms", {"id": number}, 1.0)
        return replace(target, expose=lambda minute: [*(target.expose(minute) or ()), sample])

    broker, other = targets()
    unnamed = replace(broker, labels={"job": "kafka", "instance": "a:9404"})
    assert check(with_app_info(unnamed, "1"), other).verdict is not ClientVerdict.BLOCKED
    assert {scrape.broker for scrape in evidence_of(FakePrometheus([with_app_info(unnamed, "1")])).scrapes} == {1}
    assert "no label shows one broker id" in problems(with_app_info(broker, "5"), other)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("", True),
        ('namespace="kafka"', True),
        ('namespace="kafka", job=~"a|b",pod!~"x.*"', True),
        ('{namespace="kafka"}', False),
        ("namespace=kafka", False),
        ('version!="2"', False),
        ('__name__="up"', False),
        ('request!="Produce"', False),
        ('namespace="a"} or {namespace="b"', False),
        ('namespace="a",', False),
    ],
)
def test_a_selector_consists_of_matchers_of_labels_of_targets_only(text: str, is_valid: bool) -> None:
    assert is_selector(text) is is_valid
