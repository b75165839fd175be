"""The API server, as far as we use it: KafkaFeatures and their statuses, Secrets, ConfigMaps, Events.

Called by `reconcile/kube_home.py`, `reconcile/worker.py` and `app.py`. Every request has a deadline and none is
repeated here: the queue tries the whole pass again. The client reads the token of a pod again every minute.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kubernetes.aio import client, config

from kafkafeatures.api.names import CREDENTIALS, GROUP, PLURAL, VERSION
from kafkafeatures.kube.errors import Gone, translated

PATIENCE = 10.0
"""Seconds for one request."""
PAGE = 500


class Key(NamedTuple):
    """Which resource. Another life of the same name has the same key and another uid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def in_pod() -> bool:
    """Whether the account of a pod is to be used."""
    return "KUBECONFIG" not in os.environ and os.path.exists(config.incluster_config.SERVICE_TOKEN_FILENAME)


@asynccontextmanager
async def connected() -> AsyncIterator[KubeApi]:
    """A client with the account of the pod, or that of KUBECONFIG outside of one."""
    configuration = client.Configuration()
    if in_pod():
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
    else:
        await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
    async with client.ApiClient(configuration) as api:
        yield KubeApi(api)


class KubeApi:
    """Requests to the API server. Raises KubeError."""

    def __init__(self, api: client.ApiClient) -> None:
        self._url = api.configuration.host
        self._custom = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._events = client.EventsV1Api(api)

    def endpoints(self) -> Iterator[tuple[str, int]]:
        """(IP address, port) of the API server, by every name we have for it."""
        url = urlsplit(self._url)
        for host in {url.hostname, os.environ.get("KUBERNETES_SERVICE_HOST"), "kubernetes.default.svc"}:
            with suppress(OSError):
                for found in socket.getaddrinfo(host, url.port or 443, type=socket.SOCK_STREAM) if host else ():
                    yield str(found[4][0]), url.port or 443

    async def resource(self, key: Key) -> dict[str, Any]:
        """One KafkaFeatures as it is now. Raises Gone."""
        with translated(f"read {key}"):
            answer: Any = await self._custom.get_namespaced_custom_object(
                GROUP, VERSION, key.namespace, PLURAL, key.name, _request_timeout=PATIENCE
            )
        found: dict[str, Any] = answer
        return found

    async def resources(self, namespace: str = "") -> list[dict[str, Any]]:
        """All of a namespace; all there are for an empty one. Read in pages."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            more: dict[str, Any] = {"limit": PAGE, "_continue": token, "_request_timeout": PATIENCE}
            with translated(f"list {PLURAL}"):
                if namespace:
                    page: Any = await self._custom.list_namespaced_custom_object(
                        GROUP, VERSION, namespace, PLURAL, **more
                    )
                else:
                    page = await self._custom.list_custom_object_for_all_namespaces(GROUP, VERSION, PLURAL, **more)
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def replace_status(self, resource: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Write the whole status of exactly this version of the resource; what the server made of it.

        Raises Conflict where somebody wrote in between, Refused where the schema says no.
        """
        metadata = resource["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        kept = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
        body = {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "metadata": kept,
            "spec": resource["spec"],
            "status": status,
        }
        with translated(f"write the status of {key}"):
            written: Any = await self._custom.replace_namespaced_custom_object_status(
                GROUP, VERSION, key.namespace, PLURAL, key.name, body, _request_timeout=PATIENCE
            )
        found: dict[str, Any] = written
        return found

    async def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a Secret that carries our label; None for one that does not, and for one that is not there.

        The two are not told apart: who may write a resource must not learn which Secrets exist.
        """
        try:
            with translated("read a Secret"):
                found = await self._core.read_namespaced_secret(name, namespace, _request_timeout=PATIENCE)
        except Gone:
            return None
        labels = (found.metadata.labels if found.metadata else None) or {}
        if labels.get(CREDENTIALS) != "true":
            return None
        return {key: _text(value) for key, value in (found.data or {}).items()}

    async def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a ConfigMap; None where there is none."""
        try:
            with translated("read a ConfigMap"):
                found = await self._core.read_namespaced_config_map(name, namespace, _request_timeout=PATIENCE)
        except Gone:
            return None
        return dict(found.data or {})

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Post one event of events.k8s.io/v1."""
        body: Any = dict(event)
        with translated("post an Event"):
            await self._events.create_namespaced_event(namespace, body, _request_timeout=PATIENCE)


def _text(value: str | bytes) -> str:
    return base64.b64decode(value).decode("utf-8", "replace")
