"""One Kafka in three racks, an observer of it, and an operator beside them, for all rolls of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.amounts import SOAK
from tests.e2e.kubernetes.resources import delete_all
from tests.e2e.kubernetes.rolls.rig import kafka_in_racks, operator_beside
from tests.e2e.kubernetes.rolls.rolling import TOPIC, Rolling
from tests.e2e.rig.kubernetes.kind import KIND
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.process import wait_until

collect_ignore = [] if SOAK else ["test_back.py", "test_killed.py", "test_soak.py"]
collect_ignore_glob = ["test_*.py"] if KIND else []  # this machine reaches no pods there


@pytest.fixture(scope="package")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    """At 4.1, with both releases' images on the node."""
    with kafka_in_racks(tmp_path_factory.mktemp("rolls")) as running:
        yield running


@pytest.fixture(scope="package")
def observer(racks: Racks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observer]:
    """From here to the end."""
    with Observer(racks, tmp_path_factory.mktemp("observer"), TOPIC) as running:
        yield running


@pytest.fixture(scope="package")
def operator(racks: Racks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """With the rights of its account, and no others."""
    with operator_beside(racks, tmp_path_factory.mktemp("operator")) as running:
        yield running


@pytest.fixture
def rolling(racks: Racks, observer: Observer, operator: Operator) -> Iterator[Rolling]:
    """All nodes are well as a test begins, and none is being restarted after it."""
    wait_until("all replicas are in sync", observer.in_sync, step=0.5)
    assert operator.alive
    yield Rolling(racks, observer)
    delete_all(racks.plane, racks.namespace)
