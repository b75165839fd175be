"""Fifteen real clients: the API versions that they use on Kafka 3.9 foretell which of them work on a release of 4.x."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.core.clients.targets import Acceptance, Targets, parse_targets
from tests.clients.generate.__main__ import TARGETS
from tests.e2e.clients.conftest import OldBroker, one_node, run_clients
from tests.e2e.clients.old_clients import CLIENTS
from tests.e2e.rig.releases import MIDDLE, NEWEST

TABLE: Targets = parse_targets(TARGETS.read_bytes())


def removed(release: str, versions: frozenset[tuple[str, int]]) -> list[tuple[str, int]]:
    target = TABLE.of(release)
    assert target is not None
    return sorted(each for each in versions if TABLE.acceptance(target, *each) is Acceptance.REMOVED)


def test_every_client_works_on_the_old_broker(old_broker: OldBroker) -> None:
    assert {name: outcome.text for name, outcome in old_broker.outcomes.items() if not outcome.works} == {}
    assert set(CLIENTS) <= set(old_broker.versions)


@pytest.mark.parametrize("release", [MIDDLE, NEWEST])
def test_a_client_works_on_a_new_release_exactly_if_it_sends_no_version_that_the_release_removed(
    old_broker: OldBroker, release: str, tmp_path: Path
) -> None:
    predictions = {name: not removed(release, old_broker.versions[name]) for name in CLIENTS}
    with one_node(tmp_path / "c", release) as cluster:
        outcomes = run_clients(cluster)
    texts = {name: outcomes[name].text for name in CLIENTS if outcomes[name].works is not predictions[name]}
    assert texts == {}
    assert set(predictions.values()) == {True, False}
