"""Clusters that tests borrow by name, and give back as they found them.

If a test failed, or a node no longer runs, the cluster ends there, and the next test that asks for it gets a new one:
no test fails for what another one did. A test that changes what a cluster is to keep is the one that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from tests.e2e.rig.process import Daemon


class Borrowed(Protocol):
    """What a cluster is to those who look after it."""

    @property
    def nodes(self) -> Mapping[int, Daemon]: ...

    def stop(self) -> None: ...


T = TypeVar("T", bound=Borrowed)


class Shared(Generic[T]):
    """`start`: name -> that cluster, running. `kept`: what no test may change of it."""

    def __init__(self, start: Callable[[str], T], kept: Callable[[str, T], object]) -> None:
        self._start, self._kept = start, kept
        self._running: dict[str, tuple[T, object]] = {}

    def get(self, name: str) -> T:
        if name not in self._running:
            cluster = self._start(name)
            self._running[name] = cluster, self._kept(name, cluster)
        return self._running[name][0]

    def give_back(self, name: str, *, failed: bool) -> None:
        cluster, before = self._running[name]
        for node in cluster.nodes.values():
            node.thaw()
        if failed or not all(node.alive for node in cluster.nodes.values()):
            self._end(name)
        elif (now := self._kept(name, cluster)) != before:
            self._end(name)
            raise AssertionError(f"{name} is shared, and was left with {now} instead of {before}")

    def end(self) -> None:
        for name in list(self._running):
            self._end(name)

    def _end(self, name: str) -> None:
        self._running.pop(name)[0].stop()
