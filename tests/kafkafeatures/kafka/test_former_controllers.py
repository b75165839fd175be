"""Addresses of former controllers: a controller may still answer there, though no document names it any more."""

from __future__ import annotations

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.probe import former_controllers as probe
from kafkafeatures.kafka.probe.former_controllers import former_controllers
from tests.kafkafeatures.kafka.scripted import CONTROLLER_APIS, HANG, Cluster, Node, at
from tests.kafkafeatures.kafka.test_directory import settings


async def test_each_address_of_a_former_controller_is_tried_and_a_text_that_is_none_is_a_failure() -> None:
    cluster = Cluster({at(1): Node(CONTROLLER_APIS, {})})
    async with cluster.pool(settings(servers=(7,))) as pool:
        found = await former_controllers(pool, [str(at(1)), str(at(2)), "here", "a:1,b:2"])
    assert found[str(at(1))] is None
    for text in (str(at(2)), "here", "a:1,b:2"):
        failure = found[text]
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.UNREACHABLE
    for text in ("here", "a:1,b:2"):
        assert str(found[text]) == "the address of a controller: invalid address; expected host:port"


async def test_a_silent_former_controller_is_waited_for_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer wait would prove nothing: a silent controller may still run."""
    monkeypatch.setattr(probe, "WITHIN", 0.05)
    cluster = Cluster({at(1): Node(CONTROLLER_APIS, {}, refuses=HANG)})
    async with cluster.pool(settings(servers=(7,), request_timeout=60.0)) as pool:
        found = await former_controllers(pool, [str(at(1))])
    failure = found[str(at(1))]
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.TIMED_OUT
