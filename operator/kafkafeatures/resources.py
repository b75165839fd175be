"""Tracking of all resources: watches show changes, and lists find what watches miss.

Made by `app.py`; `handlers.py`, which holds the watches, calls `watching` and `show`. When a watch begins, `missed`
gives it deletions to replay to Kopf, which else keeps state of resources that are gone. All namespaces are listed
before any resource is reconciled, because the owner of each cluster must be known. After that a namespace is listed

- when its watch begins: no watch shows earlier deletions, and etcd may have been restored;
- at a jittered interval: a watch may have become silent;
- every few seconds while it has no watch.

A namespace that the operator has no right to list does not delay the others.
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
"""Uid and resourceVersion of a resource; the version is empty where it is not known."""
logger = logging.getLogger(__name__)


class Resources:
    """The resources of some namespaces; of all namespaces if none is given.

    changed: called with resources that are new or changed.
    gone: called with the key of each resource that was deleted.
    restored: called before `changed` and `gone` if etcd has an older state than before.
    every: seconds between lists of a namespace that is watched.
    known: event that is set once every namespace was listed, or its list was refused.
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
        """Events that are set when the watch of a namespace begins or ends."""
        self._logged: dict[str, str] = {}
        """Error that was logged last, by namespace that cannot be listed."""
        self._latest: dict[ResourceKey, Version] = {}
        """Version that a watch or a list showed last, of every resource that exists."""
        self._missed: dict[str, dict[str, ResourceKey]] = {namespace: {} for namespace in self._namespaces}
        """Resources, by namespace and uid, whose deletion a list showed, not a watch."""
        self.known = asyncio.Event()

    def missing(self) -> str:
        """Namespaces that are not listed and watched now, for people; empty if all are."""
        return ", ".join(sorted(namespace or "all namespaces" for namespace in self._unlisted | self._unwatched))

    def unready(self) -> str:
        """Missing namespaces, if none is watched; empty as soon as one is. Another one that cannot be watched is a
        matter for an alert, not for the readiness of the process.
        """
        is_ready = self.known.is_set() and any(map(self.holds, self._namespaces))
        return "" if is_ready else self.missing()

    def holds(self, namespace: str) -> bool:
        """True if the namespace is listed and watched; an empty name means all namespaces together."""
        return namespace not in self._unlisted and namespace not in self._unwatched

    def current(self, key: ResourceKey) -> str:
        """The current resourceVersion of the resource, if its namespace is watched; otherwise empty. The controller
        compares it, to tell whether a resource at rest must be reconciled.
        """
        is_watched = not {key.namespace, ""} & (self._unlisted | self._unwatched)
        return self._latest.get(key, ("", ""))[1] if is_watched else ""

    def watching(self, namespace: str, *, holds: bool) -> None:
        """Note that a watch of the namespace began (`holds`) or ended."""
        if holds:
            self._unwatched.discard(namespace)
            self._turned[namespace].set()
        elif namespace not in self._unwatched:
            self._unwatched.add(namespace)
            self._turned[namespace].set()

    def show(self, resource: Resource, *, gone: bool = False) -> None:
        """Note a resource that a watch shows. A watch begins with all existing resources, even those listed already."""
        if gone:
            # With another uid it is about an earlier resource of the same name.
            if self._uid(ResourceKey.of(resource)) == resource["metadata"]["uid"]:
                self._forget(ResourceKey.of(resource))
        elif self._is_new(resource):
            self._changed([resource])

    def missed(self, namespace: str) -> list[dict[str, str]]:
        """The `metadata` of resources whose deletion no watch of the namespace has shown, since the last call."""
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
        """The first list of a namespace; None where it is refused. If the server does not answer, it is tried again."""
        while True:
            try:
                return await self._list(namespace)
            except (RequestRefused, Gone):
                return None
            except KubeError as error:
                await self._environment.sleep(not_before(RELIST_DELAY, error))

    async def _follow(self, namespace: str) -> None:
        """List a namespace again and again, at the times that the module names."""
        turned, pause = self._turned[namespace], 0.0  # pause: seconds that the API server asks to wait in addition
        while True:
            is_watched = self.holds(namespace)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    self._environment.jittered(self._every) if is_watched else RELIST_DELAY + pause
                ):
                    await turned.wait()
            watch_ended = turned.is_set() and namespace in self._unwatched
            turned.clear()
            if watch_ended:
                continue  # the watch may begin again in a moment; otherwise the namespace is listed after RELIST_DELAY
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
        """Note the resources of lists. `previous`: versions that were known when the lists began: for a resource that a
        watch has shown since, it is not known which of the two is newer.
        """
        if any(listing.restored for listing in listings.values()):
            self._doubt(self._latest)  # the same versions stand for other contents
            self._restored()
        resources = [resource for listing in listings.values() for resource in listing.resources]
        listed = {ResourceKey.of(resource) for resource in resources}
        overtaken = {key for key in listed if self._latest.get(key) != previous.get(key)}
        self._changed([resource for resource in resources if self._is_new(resource)])
        self._doubt(overtaken)  # versions unknown: the reconciliation reads these resources itself
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
        """Note the version of a resource; return whether it is another one than before."""
        key, metadata = ResourceKey.of(resource), resource["metadata"]
        version = metadata["uid"], metadata["resourceVersion"]
        previous_version, self._latest[key] = self._latest.get(key), version
        if previous_version is not None and previous_version[0] != metadata["uid"]:
            self._miss(key, previous_version[0])
        return previous_version != version

    def _miss(self, key: ResourceKey, uid: str) -> None:
        """Keep a deletion that no watch has shown, for `missed`: under the namespace whose watch should have shown
        it.
        """
        self._missed[key.namespace if key.namespace in self._missed else ""][uid] = key

    def _forget(self, key: ResourceKey) -> None:
        if self._latest.pop(key, None) is not None:
            self._gone(key)
