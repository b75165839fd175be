"""Tracks all resources: watches show changes, and lists of our own find what watches miss.

All namespaces are listed before any resource is reconciled, because the owner of each cluster must be known. After that
a namespace is listed when its watch begins (no watch shows earlier deletions, and etcd may have been restored), at a
jittered resync (a watch may have become silent), and every few seconds while it has no watch. A namespace that refuses,
or does not exist, does not delay the others. `handlers.py`, which holds the watches, calls `watching` and `show`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafkafeatures.environment import Environment
from kafkafeatures.kube.api import KubernetesApi, Listing, ResourceKey
from kafkafeatures.kube.errors import Gone, KubeError, RequestRefused
from kafkafeatures.reconcile.queue import not_before

RELIST_DELAY = 5.0
"""Seconds until a namespace that could not be listed, or is not watched, is listed again."""

Resource = Mapping[str, Any]
Version = tuple[str, str]
logger = logging.getLogger(__name__)


class Resources:
    """The resources of some namespaces; of all namespaces if none is given.

    `changed` is called with resources that are new or changed; `gone` with each that was deleted; `restored`, before
    that, where etcd has an older state than before. `every`: seconds between lists while all is well.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        environment: Environment,
        *,
        changed: Callable[[Sequence[Resource]], None],
        gone: Callable[[ResourceKey], None],
        restored: Callable[[], None],
        every: float,
    ) -> None:
        self._api, self._environment = api, environment
        self._namespaces = tuple(namespaces) or ("",)
        self._changed, self._gone, self._restored, self._every = changed, gone, restored, every
        self._unlisted, self._unwatched = set(self._namespaces), set(self._namespaces)
        self._turned = {namespace: asyncio.Event() for namespace in self._namespaces}
        """Set when the watch of a namespace holds, or holds no longer."""
        self._logged: dict[str, str] = {}
        self._latest: dict[ResourceKey, Version] = {}
        self._missed: dict[str, dict[str, ResourceKey]] = {namespace: {} for namespace in self._namespaces}
        """By uid: they are gone, and it was a list that said so."""
        self.known = asyncio.Event()
        """Every namespace was listed, or refused to be."""

    def missing(self) -> str:
        """The namespaces whose resources are not known now; empty while all are."""
        return ", ".join(sorted(namespace or "all namespaces" for namespace in self._unlisted | self._unwatched))

    def unready(self) -> str:
        """The namespaces that are missing while nothing can be worked on; empty as soon as one namespace is watched.
        Another that refuses, or is gone, is for an alert: it keeps none of the others waiting.
        """
        some = self.known.is_set() and any(map(self.holds, self._namespaces))
        return "" if some else self.missing()

    def holds(self, namespace: str) -> bool:
        """True if the namespace is listed and watched; an empty name means all namespaces together."""
        return namespace not in self._unlisted and namespace not in self._unwatched

    def current(self, key: ResourceKey) -> str:
        """The current version of the resource, if its namespace is watched; otherwise empty."""
        is_watched = not {key.namespace, ""} & (self._unlisted | self._unwatched)
        return self._latest.get(key, ("", ""))[1] if is_watched else ""

    def watching(self, namespace: str, *, holds: bool) -> None:
        """Note whether the API server has taken a watch request that still holds."""
        if holds:
            self._unwatched.discard(namespace)
            self._turned[namespace].set()
        elif namespace not in self._unwatched:
            self._unwatched.add(namespace)
            self._turned[namespace].set()

    def show(self, resource: Resource, *, gone: bool = False) -> None:
        """Take in what a watch shows. It begins with all that are there, also with those that were listed already."""
        if gone:
            if self._uid(ResourceKey.of(resource)) == resource["metadata"]["uid"]:  # else of an earlier life
                self._forget(ResourceKey.of(resource))
        elif self._is_new(resource):
            self._changed([resource])

    def missed(self, namespace: str) -> list[dict[str, str]]:
        """Resources that are gone since the last call, though no watch of the namespace showed it."""
        gone, self._missed[namespace] = self._missed[namespace], {}
        return [
            {"namespace": key.namespace, "name": key.name, "uid": uid}
            for uid, key in gone.items()
            if uid != self._uid(key)  # a list may be older than what a watch shows after it
        ]

    async def run(self) -> None:
        """List namespaces as described in the module, until it is cancelled."""
        listings = await asyncio.gather(*(self._first(namespace) for namespace in self._namespaces))
        self._take(
            {ns: listing for ns, listing in zip(self._namespaces, listings, strict=True) if listing is not None}, {}
        )
        self.known.set()
        async with asyncio.TaskGroup() as parts:
            for namespace in self._namespaces:
                parts.create_task(self._follow(namespace), name=f"lists of {namespace or 'all namespaces'}")

    async def _first(self, namespace: str) -> Listing | None:
        """The first list; None where it is refused. A server that does not answer is asked again."""
        while True:
            try:
                return await self._list(namespace)
            except (RequestRefused, Gone):
                return None
            except KubeError as error:
                await self._environment.sleep(not_before(RELIST_DELAY, error))

    async def _follow(self, namespace: str) -> None:
        turned, pause = self._turned[namespace], 0.0
        while True:
            is_watched = self.holds(namespace)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    self._environment.jittered(self._every) if is_watched else RELIST_DELAY + pause
                ):
                    await turned.wait()
            lost = turned.is_set() and namespace in self._unwatched
            turned.clear()
            if lost:
                continue  # it may hold again in a moment, and is listed then; if not, it is listed all the same
            previous_versions = dict(self._latest)
            try:
                self._take({namespace: await self._list(namespace)}, previous_versions)
                pause = 0.0
            except KubeError as error:
                pause = not_before(0.0, error)

    async def _list(self, namespace: str) -> Listing:
        scope = namespace or "all namespaces"
        try:
            listing = await self._api.resources(namespace)
        except KubeError as error:
            self._unlisted.add(namespace)
            if self._logged.get(namespace) != str(error):
                self._logged[namespace] = str(error)
                logger.warning("the resources of %s could not be listed: %s", scope, error)
            raise
        self._unlisted.discard(namespace)
        if self._logged.pop(namespace, ""):
            logger.info("the resources of %s are listed again", scope)
        return listing

    def _take(self, listings: Mapping[str, Listing], previous: Mapping[ResourceKey, Version]) -> None:
        """`previous`: the latest when the list began. What a watch showed meanwhile may be newer than the list."""
        if any(listing.restored for listing in listings.values()):
            self._doubt(self._latest)  # the same versions stand for other contents
            self._restored()
        resources = [resource for listing in listings.values() for resource in listing.resources]
        listed = {ResourceKey.of(resource) for resource in resources}
        overtaken = {key for key in listed if self._latest.get(key) != previous.get(key)}
        self._changed([resource for resource in resources if self._is_new(resource)])
        self._doubt(overtaken)  # which of the two is newer is not known: it is read
        for key in [key for key in self._latest if key.namespace in listings or "" in listings]:
            if key not in listed:
                self._miss(key, self._uid(key))
                self._forget(key)

    def _uid(self, key: ResourceKey) -> str:
        return self._latest.get(key, ("", ""))[0]

    def _doubt(self, keys: Iterable[ResourceKey]) -> None:
        """Note that the version of these resources is no longer known."""
        self._latest.update({key: (self._uid(key), "") for key in keys})

    def _is_new(self, resource: Resource) -> bool:
        key, metadata = ResourceKey.of(resource), resource["metadata"]
        version = metadata["uid"], metadata["resourceVersion"]
        previous_version, self._latest[key] = self._latest.get(key), version
        if previous_version is not None and previous_version[0] != metadata["uid"]:
            self._miss(key, previous_version[0])
        return previous_version != version

    def _miss(self, key: ResourceKey, uid: str) -> None:
        self._missed[key.namespace if key.namespace in self._missed else ""][uid] = key

    def _forget(self, key: ResourceKey) -> None:
        if self._latest.pop(key, None) is not None:
            self._gone(key)
