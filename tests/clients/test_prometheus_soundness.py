"""A Prometheus that lost, mixed up or repeated samples never makes a cluster ready that is sent a removed version.

The histories, and the function that says which of them have such a use, are those of `test_soundness.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.verdict import ClientVerdict
from kafkafeatures.prometheus.api import PrometheusFailed
from kafkafeatures.prometheus.brokers import SeveralClusters
from tests.amounts import share
from tests.clients.fake_prometheus import Exposed, FakePrometheus, ScrapedTarget, checked_by, target_of
from tests.clients.histories import BEGIN, DAY, END, History
from tests.clients.test_soundness import BROKERS, histories, is_sent_a_removed_version

Damage = Callable[[ScrapedTarget], ScrapedTarget]


def with_hole(begin: int, length: int) -> Damage:
    """Make the target fail in the `length` minutes from `begin` on."""

    def damage(target: ScrapedTarget) -> ScrapedTarget:
        return replace(
            target, expose=lambda minute: None if begin <= minute < begin + length else target.expose(minute)
        )

    return damage


def with_retention(begin: int) -> Damage:
    """Remove all samples from before a minute, as Prometheus does after its retention time."""
    return with_hole(0, begin)


def stuck(since: int) -> Damage:
    """Repeat the answer of one minute from then on."""

    def damage(target: ScrapedTarget) -> ScrapedTarget:
        return replace(target, expose=lambda minute: target.expose(min(minute, since)))

    return damage


def relabelled(version: str) -> Damage:
    """Drop the counters of a version, as rules of Prometheus can."""

    def drops(name: str, labels: Mapping[str, str]) -> bool:
        return labels.get("version") == version

    return lambda target: replace(target, drops=drops)


def moved(broker: int) -> Damage:
    """Label the target with the id of another broker."""
    return lambda target: replace(target, labels={**target.labels, "broker_id": str(broker)})


def cut_off(api: str) -> Damage:
    """Leave out the counters of an API."""

    def without(samples: Exposed | None) -> Exposed | None:
        return samples and [sample for sample in samples if sample[1].get("request") != api]

    def damage(target: ScrapedTarget) -> ScrapedTarget:
        return replace(target, expose=lambda minute: without(target.expose(minute)))

    return damage


MINUTES = st.one_of(
    st.integers(BEGIN - DAY, END),
    st.integers(-90, 90).map(lambda minutes: BEGIN + minutes),
    st.integers(0, 90).map(lambda minutes: END - minutes),
)
DAMAGES: st.SearchStrategy[Damage] = st.one_of(
    st.builds(with_hole, MINUTES, st.sampled_from((1, 4, 8, 70, DAY, 9 * DAY))),
    st.builds(with_retention, MINUTES),
    st.builds(stuck, MINUTES),
    st.builds(relabelled, st.sampled_from(("2", "4"))),
    st.builds(moved, st.sampled_from(BROKERS)),
    st.builds(cut_off, st.just("ApiVersions")),
)


@st.composite
def damaged(draw: st.DrawFn, targets: Sequence[ScrapedTarget]) -> list[ScrapedTarget]:
    """Targets of which some are damaged, missing or there twice, as of two replicas or two jobs."""
    scraped = []
    for target in targets:
        copies = draw(st.sampled_from((1, 1, 1, 0, 2)))
        for number in range(copies):
            labels = {**target.labels, "job": f"kafka-{number}"} if copies > 1 else target.labels
            copy = replace(target, labels=labels, offset=target.offset + 11_000 * number)
            for damage in draw(st.lists(DAMAGES, max_size=2)):
                copy = damage(copy)
            scraped.append(copy)
    return scraped


def verdict(targets: Sequence[ScrapedTarget]) -> ClientVerdict:
    """The verdict by these targets; Unknown if the evidence is refused."""
    try:
        return checked_by(FakePrometheus(targets), BROKERS).verdict
    except (PrometheusFailed, SeveralClusters):
        return ClientVerdict.UNKNOWN


def targets_of(history: History, errors: Mapping[int, int]) -> list[ScrapedTarget]:
    """The targets of all brokers. `errors`: by broker, the minutes by which its clock is wrong."""
    return [target_of(history, broker, errors.get(broker, 0)) for broker in history.brokers]


@settings(max_examples=share(120), deadline=None)
@given(st.data())
def test_ready_is_never_said_of_a_cluster_that_was_sent_a_removed_version(data: st.DataObject) -> None:
    history = data.draw(histories())
    errors = data.draw(st.dictionaries(st.sampled_from(BROKERS), st.sampled_from((-60, -30, -4, 4, 60)), max_size=1))
    result = verdict(data.draw(damaged(targets_of(history, errors))))
    event(result.value)
    if result is ClientVerdict.READY:
        assert not is_sent_a_removed_version(history)


@settings(max_examples=share(60), deadline=None)
@given(st.data())
def test_damage_makes_nothing_ready_that_was_not(data: st.DataObject) -> None:
    targets = targets_of(data.draw(histories()), {})
    intact = verdict(targets)
    event(intact.value)
    if verdict(data.draw(damaged(targets))) is ClientVerdict.READY:
        assert intact is ClientVerdict.READY
