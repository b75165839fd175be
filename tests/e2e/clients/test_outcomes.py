"""Fifteen real clients: the API versions that they use on Kafka 3.9 foretell which of them work on a release of 4.x."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.cli.clients.request_logs import read_request_logs
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.senders import senders_of
from kafkafeatures.core.clients.targets import Acceptance
from tests.e2e.clients.conftest import OldBroker, one_node, run_clients
from tests.e2e.clients.old_clients import CLIENTS
from tests.e2e.rig.releases import MIDDLE, NEWEST

TABLE = client_targets()


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


@pytest.mark.parametrize("release", [MIDDLE, NEWEST])
def test_the_reduced_request_log_names_exactly_the_clients_that_break(
    old_broker: OldBroker, release: str, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_text(old_broker.cluster.brokers[0].log)
    assert main(["clients", "reduce", "--broker", "1", "--to", str(tmp_path / "to"), str(log)]) == Exit.DONE
    logs = read_request_logs([tmp_path / "to"])
    window = EvidenceWindow(min(use.first for use in logs.uses), max(use.last for use in logs.uses))
    senders = senders_of(logs.uses, release, TABLE, window, ())
    named = {sender.client_id: sorted(sender.versions) for sender in senders}
    gone = {name: removed(release, versions) for name, versions in old_broker.versions.items()}
    assert named == {name: versions for name, versions in gone.items() if versions}
    assert set(named) <= set(CLIENTS)
