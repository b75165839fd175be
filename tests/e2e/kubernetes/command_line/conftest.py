"""A namespace with people who have different rights, and for each test a resource that is as new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes.command_line.orders import ACCOUNTS, CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.kubernetes.resources import account, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install(control_plane)
    control_plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
    )
    for name, rules in ACCOUNTS.items():
        account(control_plane, NS, name, rules)
    return control_plane


@pytest.fixture
def orders(plane: ControlPlane) -> Iterator[Orders]:
    """Made anew for each test, of generation 1 and without a status."""
    made = Orders(plane, namespace=NS)
    made.apply(made.name, {"metadata.version": 27}, **CLUSTER)
    yield made
    made.delete(made.name)


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.kubeconfig_of(NS, "person")


@pytest.fixture
def person(kubeconfig: Path, tmp_path: Path) -> Person:
    return Person(tmp_path / "home", kubeconfig)
