"""Rules for every driver that restarts nodes, and for one that restarts a whole StatefulSet at once."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.roll import drivers
from kafkafeatures.core.roll.drivers import DRIVERS, NOBODY, STATEFUL_SET, STRIMZI, RestartScope, driver_named
from tests.kafkafeatures.core.rolls import cluster, refused, rolled


def test_each_driver_has_a_unique_name() -> None:
    names = [driver.name for driver in DRIVERS]
    assert sorted(names) == sorted(set(names))
    assert [driver_named(name) for name in names] == list(DRIVERS)
    assert driver_named("Crane") is None
    assert driver_named({"driver": "None"}) is None


def test_a_driver_that_restarts_pods_has_a_module_for_kubernetes() -> None:
    adapters = {driver.adapter for driver in DRIVERS if driver.reads_pods}
    assert adapters
    assert [adapter for adapter in adapters if find_spec(f"kafkafeatures.kube.workloads.{adapter}") is None] == []
    assert [driver for driver in DRIVERS if not driver.restarts_nodes] == [NOBODY]


def test_the_request_of_a_driver_that_asks_another_operator_is_that_of_no_other_driver() -> None:
    """An intent in a status has only the request, by which the driver that withdraws it is found."""
    asking = [driver for driver in DRIVERS if driver.asked]
    assert STRIMZI in asking
    assert [driver for driver in asking if [each.request for each in DRIVERS].count(driver.request) > 1] == []


def test_a_driver_that_restarts_a_whole_stateful_set_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "DRIVERS", (replace(STATEFUL_SET, reach=RestartScope.WHOLE_SET),))
    roll = rolled(cluster())
    assert refused(roll, Reason.ROLLOUT_HALTED).startswith("driver StatefulSet restarts a whole set at once")
