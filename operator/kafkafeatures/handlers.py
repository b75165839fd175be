"""Everything Kopf calls. An event about a resource wakes its key, and that is all.

No handler returns a value and none touches Kopf's `patch`: Kopf writes nothing to our resources, no finalizer, no
annotation. Its create/update/delete handlers, timers and daemons are not used: they keep state in annotations or add a
finalizer, and one failed PATCH ends a daemon for good while the process looks alive. All of ours are coroutines: Kopf
would give each plain function a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import kopf

from kafkafeatures.api.names import GROUP, PLURAL, VERSION
from kafkafeatures.kube.client import account_of_the_pod, in_pod

Seen = Callable[[Mapping[str, Any]], None]


def registry_of(seen: Seen) -> kopf.OperatorRegistry:
    """Handlers that call `seen` with each object the watch shows, also with the last state of one that is gone."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True  # a foreign peering object would pause us silently
        settings.scanning.disabled = True  # our resource is known by name: no right to list CRDs and namespaces needed
        settings.posting.enabled = False  # Events are ours to post, with `regarding` and `action`
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 310
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        # Named, because Kopf would take whatever client library is installed. Its own way in a pod asks for the name of
        # the API server: where names do not resolve, it would give up, and with it the whole process.
        if in_pod():
            return kopf.ConnectionInfo(**account_of_the_pod()._asdict())
        return kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def wake(body: kopf.Body, **_: Any) -> None:
        seen(body)

    return registry
