"""Which resources there are: for each namespace one list and one watch, and both anew when the watch ends.

Also when its connection was lost: etcd may have been restored meanwhile, and may not have come as far as was seen.

A namespace that refuses, or is not there, keeps no other one waiting. A watch is given up after a while even if nothing
seems wrong with it: whatever made it deaf, the next list has what it missed. Called by `app.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.handlers import End, Interrupted, watch
from kafkafeatures.kube.api import KubernetesApi, Listing
from kafkafeatures.kube.errors import Gone, KubeError, Refused
from kafkafeatures.reconcile.queue import is_meant, not_before

RELIST_DELAY = 5.0
"""Seconds until a list that failed, or a watch that ended by itself, begins anew."""
WATCH_HEALTHY_AFTER = 60.0
"""Seconds after which a watch that shows nothing is believed, although the one before ended by itself. An API server
that refuses a watch does so far sooner."""

Resource = Mapping[str, Any]
logger = logging.getLogger(__name__)


class Watch:
    """Of these namespaces; of all there are for none.

    `listed` is told which namespaces were listed, and what they have; `seen` of each resource that a watch shows, also
    of the last state of one that is gone. `every`: seconds after which a watch begins anew.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        *,
        listed: Callable[[Sequence[str], Listing], None],
        seen: Callable[[Resource], None],
        every: float,
        environment: Environment = SYSTEM,
    ) -> None:
        self._api = api
        self._namespaces = tuple(namespaces) or ("",)
        self._listed, self._seen, self._every = listed, seen, every
        self._environment = environment
        self._unlisted = set(self._namespaces)
        self._deaf: set[str] = set()
        """Whose watch ended by itself. A new one is believed when it shows something, or holds."""
        self._said: dict[str, str] = {}
        self._versions: dict[str, frozenset[tuple[str, str]]] = {}
        """What was listed last: a watch begins with the same resources, and each would be worked on twice."""

    def missing(self) -> str:
        """The namespaces whose resources are not known now; empty while all are."""
        return ", ".join(sorted(one or "all namespaces" for one in self._unlisted | self._deaf))

    async def run(self) -> None:
        """Until it is cancelled. All namespaces are listed before any resource is worked on: who owns which cluster?"""
        first = await asyncio.gather(*(self._first(namespace) for namespace in self._namespaces))
        answered = [one for one, found in zip(self._namespaces, first, strict=True) if found is not None]
        self._listed(answered, Listing([resource for found in first if found for resource in found.resources]))
        async with asyncio.TaskGroup() as parts:
            for namespace, found in zip(self._namespaces, first, strict=True):
                parts.create_task(self._follow(namespace, found is not None), name=f"watch of {namespace or 'all'}")

    async def _first(self, namespace: str) -> Listing | None:
        """None where it is refused; whoever is only away is waited for."""
        while True:
            try:
                return await self._list(namespace)
            except (Refused, Gone):
                return None
            except KubeError as error:
                await self._environment.sleep(not_before(RELIST_DELAY, error))

    async def _follow(self, namespace: str, known: bool) -> None:
        while True:
            if known and not await self._held(namespace):
                await self._environment.sleep(RELIST_DELAY)
            try:
                self._listed([namespace], await self._list(namespace))
            except KubeError as error:
                await self._environment.sleep(not_before(RELIST_DELAY, error))
            known = namespace not in self._unlisted

    async def _list(self, namespace: str) -> Listing:
        try:
            found = await self._api.resources(namespace)
        except KubeError as error:
            self._unlisted.add(namespace)
            if self._said.get(namespace) != str(error):
                self._said[namespace] = str(error)
                logger.warning("the resources of %s could not be listed: %s", namespace or "all namespaces", error)
            raise
        self._unlisted.discard(namespace)
        self._versions[namespace] = frozenset(_version(one) for one in found.resources)
        if self._said.pop(namespace, ""):
            logger.info("the resources of %s are listed again", namespace or "all namespaces")
        return found

    async def _held(self, namespace: str) -> bool:
        """Watch. Whether that went well for as long as it was to go."""
        here, stop = asyncio.get_running_loop(), Future[End]()

        def show(resource: Resource) -> None:
            with suppress(RuntimeError):  # the process ends, and our loop is closed
                here.call_soon_threadsafe(self._show, namespace, dict(resource))

        def believe() -> None:
            if stop.done():  # it did begin
                self._deaf.discard(namespace)

        # A loop of its own: at its end Kopf cancels every task of its loop. And a thread of its own: names that do not
        # resolve may hold all of asyncio's, and a Kopf that does not end would hold one for good.
        thread = ThreadPoolExecutor(1, f"watch of {namespace or 'all'}")
        belief, began = here.call_later(WATCH_HEALTHY_AFTER, believe), self._environment.monotonic()
        try:
            async with asyncio.timeout(self._every) as enough:
                await here.run_in_executor(thread, lambda: asyncio.run(watch(namespace, show, stop)))
            why = "for no reason"
        except Interrupted:
            self._deaf.discard(namespace)
            logger.info("the watch of %s lost its connection; it begins anew", namespace or "all namespaces")
            return self._environment.monotonic() - began > RELIST_DELAY
        except (Exception, asyncio.CancelledError) as error:  # whatever it ends with
            if is_meant(error):
                raise
            if enough.expired() and stop.done():
                self._deaf.discard(namespace)
                return True
            why = "it never began" if enough.expired() else str(error) or type(error).__name__
        finally:
            belief.cancel()
            thread.shutdown(wait=False)
            stop.add_done_callback(lambda stop: stop.result()())
        self._deaf.add(namespace)
        logger.error("the watch of %s ended: %s; it begins anew", namespace or "all namespaces", why)
        return False

    def _show(self, namespace: str, resource: Resource) -> None:
        self._deaf.discard(namespace)
        if _version(resource) not in self._versions[namespace]:
            self._seen(resource)


def _version(resource: Resource) -> tuple[str, str]:
    return resource["metadata"]["uid"], resource["metadata"]["resourceVersion"]
