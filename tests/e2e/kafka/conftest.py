"""Clusters that more than one test borrows (see rig/shared.py). Each ends when the tests that share it are over:
`together` of side_by_side.py says which these are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.conformance.cases import WORLDS
from tests.conformance.changes import WHICH_LEVELS, levels_in
from tests.e2e.rig.asking import asked
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD
from tests.e2e.rig.shared import Shared
from tests.e2e.side_by_side import together

collect_ignore = [] if os.environ.get("SOAK") else ["test_ibp_soak.py", "test_migration_soak.py"]

ONE_EACH: dict[str, Any] = {"controllers": 1, "brokers": 1}

SIX: dict[str, dict[str, Any]] = {
    OLD: {"version": OLD, "release_version": "3.7"},
    MIDDLE: {"version": MIDDLE, "release_version": "4.0", "dynamic": True},
    NEWEST: {"version": NEWEST, "release_version": "4.1"},
}
"""Three controllers and three brokers. test_asking raises metadata.version, and of the files that ask them the last,
test_nodes_that_are_gone, leaves them worse than they were.
"""

SMALL = {one.version: {**ONE_EACH, "version": one.version, "release_version": one.format} for one in WORLDS.values()}
"""One controller and one broker, whose levels no test changes."""

SECURED = {
    f"{version}-{kind}": {**ONE_EACH, "version": version, "kind": kind, "release_version": "3.8"}
    for version, kind in ((NEWEST, "SSL"), (NEWEST, "PLAIN"), (NEWEST, "SCRAM-SHA-256"), (OLD, "SCRAM-SHA-512"))
}
"""The clusters of test_security, which raises metadata.version; test_bad_input only knocks at the door."""

COMBINED = {NEWEST: {"version": NEWEST, "controllers": 0, "brokers": 0, "combined": 3, "dynamic": True}}

KINDS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "six": SIX,
    "small": SMALL,
    "secured": SECURED,
    "combined": COMBINED,
}
SHAPES = {f"{kind} {name}": shape for kind, shapes in KINDS.items() for name, shape in shapes.items()}
FIXED = ("small", "combined")
"""Clusters whose levels no test changes."""

Borrow = Callable[[str], Cluster]
FAILED = pytest.StashKey[bool]()


def levels_of(name: str, cluster: Cluster) -> Mapping[str, int] | None:
    """Where they are to stay."""
    return levels_in(asked(cluster.brokers[0].port, WHICH_LEVELS))[0] if name.startswith(FIXED) else None


SHARED = pytest.StashKey[Shared[Cluster]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    item.stash[FAILED] = item.stash.get(FAILED, False) or call.excinfo is not None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        over = nextitem is None or together(nextitem.nodeid) != together(item.nodeid)
        if over and (shared := item.config.stash.get(SHARED, None)):
            shared.end()


@pytest.fixture
def borrow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Borrow]:
    """A name of SHAPES -> that cluster, running."""

    def start(name: str) -> Cluster:
        cluster = Cluster(tmp_path_factory.mktemp(name.replace(" ", "-")), **SHAPES[name])
        cluster.start()
        return cluster

    shared = request.config.stash.setdefault(SHARED, Shared(start, levels_of))
    borrowed: dict[str, None] = {}

    def of_this_name(name: str) -> Cluster:
        cluster = shared.get(name)
        borrowed[name] = None
        return cluster

    yield of_this_name
    for name in borrowed:
        shared.give_back(name, failed=request.node.stash.get(FAILED, False))


# Of the session, so that pytest puts the tests of one together.
@pytest.fixture(scope="session", params=SIX)
def which_six(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def six(borrow: Borrow, which_six: str) -> Cluster:
    return borrow(f"six {which_six}")


@pytest.fixture(scope="session", params=SECURED)
def which_secured(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def secured(borrow: Borrow, which_secured: str) -> Cluster:
    return borrow(f"secured {which_secured}")


@pytest.fixture
def combined(borrow: Borrow) -> Cluster:
    return borrow(f"combined {NEWEST}")
