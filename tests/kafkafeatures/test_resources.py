"""Which resources there are: a namespace that refuses keeps no other one waiting, and lists show what watches miss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkafeatures import resources as module
from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.api import Listing, ResourceKey
from kafkafeatures.resources import Resources
from tests.kafkafeatures.threads import until
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Reply, Request, refusal

Json = dict[str, Any]
SPEC = {"cluster": {"bootstrapServers": "kafka:9092"}}
AT_ONCE = replace(SYSTEM, random=lambda: 0.0)


class Site:
    """An API server, and reports about its resources: `a` was created or changed, `-a` is gone, `!` etcd was
    restored. `listed`: the namespace of each list that was requested.
    """

    def __init__(self, *namespaces: str, every: float = 3600.0, environment: Environment = AT_ONCE) -> None:
        self.server = ApiServer()
        self.refused: dict[str, Reply] = {}
        self.listed: list[str] = []
        self.reports: list[str] = []
        self.resources = Resources(
            self.server.client(self._fault),
            namespaces,
            environment,
            changed=lambda changed: self.reports.extend(one["metadata"]["name"] for one in changed),
            gone=lambda key: self.reports.append(f"-{key.name}"),
            restored=lambda: self.reports.append("!"),
            every=every,
        )

    def create(self, name: str, namespace: str = "one") -> Json:
        return self.server.create(namespace, name, SPEC)

    def change(self, name: str, namespace: str = "one") -> Json:
        return self.server.edit(namespace, name, lambda one: one["metadata"].update(labels={"a": "b"}))

    def watch(self, *namespaces: str) -> None:
        """Let the watches of these namespaces begin, or begin again."""
        for namespace in namespaces:
            self.resources.watching(namespace, holds=False)
            self.resources.watching(namespace, holds=True)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.resources.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _fault(self, request: Request) -> Fault | None:
        namespace = request.path.partition("/namespaces/")[2].partition("/")[0]
        self.listed.append(namespace)
        return Fault(self.refused[namespace]) if namespace in self.refused else None


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELIST_DELAY", 0.001)


async def test_a_namespace_that_refuses_its_list_does_not_delay_another() -> None:
    site = Site("one", "other")
    site.create("a")
    site.create("b", "other")
    site.refused["other"] = refusal(403, "no")
    site.watch("one", "other")
    async with site.following():
        await site.resources.known.wait()
        assert (site.reports, site.resources.missing()) == (["a"], "other")
        await until(lambda: site.resources.unready() == "")
        assert [site.resources.holds(one) for one in ("one", "other")] == [True, False]
        del site.refused["other"]
        await until(lambda: site.reports == ["a", "b"] and site.resources.missing() == "")
    assert site.listed.count("one") == 2  # at first, and when its watch began


async def test_no_resource_is_reported_before_every_namespace_answered() -> None:
    """A namespace that does not answer may have an older resource, which then owns the cluster."""
    site = Site("one", "other")
    site.create("a")
    site.create("b", "other")
    site.refused["other"] = refusal(503, "away")
    site.watch("one", "other")
    async with site.following():
        await until(lambda: site.listed.count("other") > 2)
        assert (site.reports, site.resources.known.is_set(), site.resources.missing()) == ([], False, "other")
        assert site.resources.unready() == "other"
        del site.refused["other"]
        await until(lambda: site.reports == ["a", "b"])


async def test_changes_that_a_watch_missed_are_reported_by_the_next_list() -> None:
    site = Site(every=0.005)
    site.create("a")
    site.create("b")
    site.watch("")
    async with site.following():
        await until(lambda: site.reports == ["a", "b"])
        site.change("a")
        site.server.delete("one", "b")
        site.create("c")
        await until(lambda: len(site.reports) > 4)
        assert (site.reports, site.resources.missing()) == (["a", "b", "a", "c", "-b"], "")


async def test_an_unchanged_resource_is_not_reported_again() -> None:
    site = Site(every=0.001)
    site.create("a")
    site.watch("")
    async with site.following():
        await until(lambda: len(site.listed) > 3)
        assert site.reports == ["a"]


async def test_a_resource_of_the_first_list_is_not_reported_again_by_the_watch() -> None:
    site = Site()
    first = site.create("a")
    site.watch("")
    async with site.following():
        await site.resources.known.wait()
        for resource in (first, site.create("b"), site.change("a")):
            site.resources.show(resource)
        assert site.reports == ["a", "b", "a"]


async def test_a_deleted_resource_is_reported_once_and_a_recreated_one_as_new() -> None:
    site = Site()
    last = site.create("a")
    site.watch("")
    async with site.following():
        await site.resources.known.wait()
        site.resources.show(last, gone=True)
        site.resources.show(last, gone=True)
        site.server.delete("one", "a")
        site.resources.show(site.create("a"))
        assert site.reports == ["a", "-a", "a"]


async def test_a_deletion_that_no_watch_reported_is_reported_once() -> None:
    """Resources are told apart by uid: one that was created again with the same name is another resource."""
    site = Site("one", "other")
    first, second, third = site.create("a"), site.create("b"), site.create("c")
    site.watch("one", "other")
    async with site.following():
        await until(lambda: site.listed.count("one") == 2)
        assert site.resources.missed("one") == []
        for name in "abc":
            site.server.delete("one", name)
        site.resources.show(third, gone=True)
        site.create("b")
        site.resources.watching("one", holds=False)
        await until(lambda: "-a" in site.reports)
        gone = [{name: one["metadata"][name] for name in ("namespace", "name", "uid")} for one in (first, second)]
        assert sorted(site.resources.missed("one"), key=lambda one: one["name"]) == gone
        assert (site.resources.missed("one"), site.resources.missed("other")) == ([], [])


async def test_a_late_deletion_event_does_not_concern_a_recreated_resource() -> None:
    site = Site()
    first = site.create("a")
    site.watch("")
    async with site.following():
        await site.resources.known.wait()
        site.server.delete("one", "a")
        site.resources.show(site.create("a"))
        site.resources.show(first, gone=True)
        assert site.reports == ["a", "a"]
        assert [one["uid"] for one in site.resources.missed("")] == [first["metadata"]["uid"]]


async def test_a_watch_that_begins_again_triggers_a_list_of_its_namespace() -> None:
    """No watch shows a resource that was deleted before the watch began."""
    site = Site("one", "other")
    site.create("a")
    site.create("b")
    site.watch("one", "other")
    async with site.following():
        await until(lambda: site.listed.count("one") == 2)
        site.server.delete("one", "b")
        site.resources.watching("one", holds=False)
        assert site.resources.missing() == "one"
        site.resources.watching("one", holds=True)
        await until(lambda: site.reports == ["a", "b", "-b"])
        assert (site.listed.count("other"), site.resources.missing()) == (2, "")


async def test_an_unwatched_namespace_is_reported_as_missing_and_listed_repeatedly() -> None:
    site = Site("one", "other")
    site.watch("other")
    async with site.following():
        await until(lambda: site.listed.count("one") > 3)
        assert (site.listed.count("other"), site.resources.missing()) == (2, "one")
        site.create("a")
        await until(lambda: site.reports == ["a"])


async def test_a_resource_version_is_current_only_while_its_namespace_is_watched() -> None:
    site = Site("one", "other")
    first, key = site.create("a"), ResourceKey("one", "a")
    async with site.following():
        await site.resources.known.wait()
        assert site.resources.current(key) == ""
        site.watch("one")
        assert site.resources.current(key) == first["metadata"]["resourceVersion"]
        changed = site.change("a")
        site.resources.show(changed)
        assert site.resources.current(key) == changed["metadata"]["resourceVersion"]
        site.resources.watching("one", holds=False)
        assert site.resources.current(key) == ""
        site.watch("one")
        site.resources.show(changed, gone=True)
        assert site.resources.current(key) == ""


async def test_a_restore_of_etcd_reports_every_resource_again() -> None:
    site = Site("one", "other")
    site.create("a")
    revision = site.server.revision
    site.create("b")
    site.create("c", "other")
    site.watch("one", "other")
    async with site.following():
        await until(lambda: len(site.listed) == 4)
        site.server.restore(revision)
        site.watch("one", "other")
        await until(lambda: "-c" in site.reports and "-b" in site.reports)
    assert site.reports[:5] == ["a", "b", "c", "!", "a"]
    assert sorted(site.reports[5:]) == ["-b", "-c"]


async def test_intervals_between_periodic_lists_are_shortened_randomly_by_up_to_a_tenth() -> None:
    """Operators that began together then do not list together for ever."""
    drawn: list[float] = []

    def draw() -> float:
        drawn.append(0.5)
        return 0.5

    environment = replace(SYSTEM, random=draw)
    site = Site(every=0.001, environment=environment)
    site.watch("")
    async with site.following():
        await until(lambda: len(site.listed) > 2)
    assert len(drawn) >= 2
    assert environment.jittered(600.0) == 570.0  # less half of a tenth


async def test_a_list_that_a_watch_event_overtook_gives_no_current_resource_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list was made before a change that the watch shows first: which of the two is newer is not known."""
    site = Site(every=0.005)
    site.create("a")
    site.watch("")
    key, client = ResourceKey("one", "a"), site.resources._api
    answer, overtaken = client.resources, asyncio.Event()

    async def slow(namespace: str) -> Listing:
        listing = await answer(namespace)
        if not overtaken.is_set() and site.reports:
            site.resources.show(site.change("a"))
            overtaken.set()
        return listing

    monkeypatch.setattr(client, "resources", slow)
    async with site.following():
        await overtaken.wait()
        assert site.resources.current(key) == ""
        newest = site.server.get("one", "a")
        assert newest is not None
        await until(lambda: site.resources.current(key) == newest["metadata"]["resourceVersion"])


async def test_a_namespace_whose_watch_is_lost_is_listed_before_the_resync() -> None:
    """If the kind is no longer served, no watch begins again, and only lists can show changes."""
    site = Site("one")
    site.create("a")
    site.watch("one")
    async with site.following():
        await until(lambda: site.reports == ["a"] and site.resources.missing() == "")
        site.resources.watching("one", holds=False)
        site.refused["one"] = refusal(404, "not served")
        listed = len(site.listed)
        await until(lambda: len(site.listed) > listed + 2)
        assert site.resources.missing() == "one"
