"""Client of the API server for KafkaFeatures and their statuses, Secrets, ConfigMaps, Events, and workloads.

Every request has a deadline, and none is repeated here: the queue repeats the whole reconciliation. In a pod the token
is read again every minute, and after an answer 401.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientRequest, ClientResponse
from aiohttp.connector import Connection
from kubernetes.aio import client, config
from kubernetes.aio.client import ApiException

from kafkafeatures.api.names import CREDENTIALS, GROUP, PLURAL, VERSION
from kafkafeatures.kube.api import USER_AGENT, Listing, ResourceKey, date_of
from kafkafeatures.kube.errors import RAISED, Gone, NoAccount, Unavailable, translated
from kafkafeatures.kube.first_byte import before_first_byte
from kafkafeatures.kube.secrets import certificates_in, secret_texts

REQUEST_TIMEOUT = 10.0
"""Deadline of one request in seconds."""
RESOLVE_TIMEOUT = 5.0
"""Deadline in seconds to resolve a name of the API server; probes wait meanwhile."""
PAGE = 500
"""Objects in one page of a list."""
_MERGE = {"Content-Type": "application/merge-patch+json"}

logger = logging.getLogger(__name__)


class _Request(ClientRequest):
    """A request of the HTTP client that may still be withheld once its connection is open (`first_byte.py`)."""

    async def send(self, conn: Connection) -> ClientResponse:
        before_first_byte()
        return await super().send(conn)


SESSION: dict[str, Any] = {
    "trust_env": False,  # or ~/.netrc is read for every single request
    "request_class": _Request,
}
"""Arguments for the session of the HTTP client."""


def in_pod() -> bool:
    """True if the account of a pod is used: this process runs in a pod, and KUBECONFIG is not set."""
    return "KUBECONFIG" not in os.environ and os.path.exists(config.incluster_config.SERVICE_TOKEN_FILENAME)


class Account(NamedTuple):
    """Address of the API server, and the credentials for it."""

    server: str
    ca_path: str | None
    certificate_path: str | None
    private_key_path: str | None
    scheme: str | None
    token: str | None
    insecure: bool


async def account() -> Account:
    """Read the address and the credentials from their files: kubelet renews a pod's token. Raises NoAccount."""
    configuration = await _configuration()
    scheme, _, token = configuration.api_key.get("BearerToken", "").partition(" ")
    files = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    return Account(configuration.host, *files, scheme.capitalize() or None, token or None, not configuration.verify_ssl)


@asynccontextmanager
async def connected() -> AsyncIterator[KubeApi]:
    """A client with the account of the pod; outside of a pod, with that of KUBECONFIG."""
    async with client.ApiClient(await _configuration()) as api:
        yield KubeApi(api)


async def _configuration() -> client.Configuration:
    configuration = client.Configuration()
    configuration.client_session_kwargs = SESSION
    await _load(configuration)
    return configuration


async def _load(configuration: client.Configuration) -> None:
    try:
        if in_pod():
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        else:
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
    except Exception as error:  # for a file that is no kubeconfig, the loader raises errors of any kind
        kubeconfig = os.environ.get("KUBECONFIG") or "~/.kube/config"
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise NoAccount(f"no API server: {reason}; run it in a pod, or check {kubeconfig} (KUBECONFIG)") from None


class KubeApi:
    """`KubernetesApi` over HTTP. Raises KubeError.

    It uses paths and plain objects instead of the client's generated classes, of which `CoreV1Api` alone takes 23 MB.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._newest = 0
        """The highest resourceVersion of any answer. With etcd it is a number that grows, except after a restore."""
        self.began: datetime | None = None
        """Time of the first answer, by the API server's clock."""
        self._date = ""
        """Date header of the last answer."""
        self.answered: Callable[[int], None] = lambda code: None
        """Function that is called with the HTTP status of each answer, for metrics."""
        api.user_agent = USER_AGENT

    @property
    def answered_at(self) -> datetime | None:
        return date_of(self._date)

    async def endpoints(self) -> frozenset[tuple[str, int]]:
        """(IP address, port) pairs of the API server, by all its known names that resolve within `RESOLVE_TIMEOUT`."""
        url = urlsplit(self._api.configuration.host)
        port = url.port or 443
        addresses = set()
        for host in {url.hostname, os.environ.get("KUBERNETES_SERVICE_HOST"), "kubernetes.default.svc"} - {None, ""}:
            resolving = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            try:
                addresses |= {(str(entry[4][0]), port) for entry in await asyncio.wait_for(resolving, RESOLVE_TIMEOUT)}
            except (OSError, TimeoutError) as error:
                logger.debug("%s does not resolve: %s", host, error)
        return frozenset(addresses)

    def trust(self) -> ssl.SSLContext:
        """TLS context that trusts the CA of the API server alone. Raises OSError where the file cannot be used."""
        return ssl.create_default_context(cafile=self._api.configuration.ssl_ca_cert)

    async def serves_resources(self) -> bool:
        groups = await self._ask("GET", "/apis")
        if all(group["name"] != GROUP for group in groups["groups"]):
            return False
        kinds = await self._ask("GET", f"/apis/{GROUP}/{VERSION}")
        return any(kind["name"] == PLURAL for kind in kinds["resources"])

    async def resource(self, key: ResourceKey) -> dict[str, Any]:
        return self._with_version_noted(await self._ask("GET", _path(key.namespace, key.name)))

    async def resources(self, namespace: str = "") -> Listing:
        """All resources, read in pages. etcd was restored if the version of the list is lower than an earlier one."""
        resources: list[dict[str, Any]] = []
        newest, version = self._newest, 0
        async for page in self._pages(_path(namespace)):
            resources += page["items"]
            version = _revision(page)  # all pages are of the version at which the list began
        restored = 0 < version < newest
        self._newest = version if restored else max(version, self._newest)
        return Listing(resources, restored)

    async def replace_status(
        self, resource: Mapping[str, Any], status: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        metadata = resource["metadata"]
        identity = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
        body = {**resource, "metadata": identity, "status": status}
        path = f"{_path(metadata['namespace'], metadata['name'])}/status"
        query = {"fieldManager": manager} | ({"dryRun": "All"} if dry_run else {})
        return self._with_version_noted(await self._ask("PUT", path, body, query=query))

    async def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """The values of a labelled Secret; None where it is absent or has no label. The two are not distinguished: a
        user who writes a resource must not learn which Secrets exist.
        """
        secret = await self._secret(namespace, name)
        if secret is None or (secret["metadata"].get("labels") or {}).get(CREDENTIALS) != "true":
            return None
        return secret_texts(secret)

    async def certificates(self, namespace: str, name: str, owner: str) -> dict[str, str] | None:
        return certificates_in(await self._secret(namespace, name), owner)

    async def _secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._ask("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
        except Gone:
            return None

    async def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        config_map = await self._config_map(namespace, name)
        return None if config_map is None else dict(config_map.get("data") or {})

    async def config_map_files(self, namespace: str, name: str) -> dict[str, bytes] | None:
        config_map = await self._config_map(namespace, name)
        if config_map is None:
            return None
        files = {key: text.encode("utf-8", "replace") for key, text in (config_map.get("data") or {}).items()}
        binary = {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}
        return files | binary

    async def _config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._ask("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        except Gone:
            return None

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        await self._ask("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)

    async def get(self, path: str) -> dict[str, Any]:
        return await self._ask("GET", path)

    async def listed(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        async for page in self._pages(path, query):
            for item in page["items"]:
                yield item

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        await self._ask(method, path, body)

    async def _pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        """The answers to a list, page by page. Raises KubeError, also for an answer that is no list."""
        parameters = {"limit": str(PAGE), **(query or {})}
        while True:
            page = await self._ask("GET", path, query=parameters)
            try:
                parameters["continue"] = page["metadata"].get("continue", "")
                complete = isinstance(page["items"], list)
            except (KeyError, TypeError, AttributeError):
                complete = False
            if not complete:
                raise Unavailable("the answer is not a list; check that the address is the API server's")
            yield page
            if not parameters["continue"]:
                return

    def _with_version_noted(self, answer: dict[str, Any]) -> dict[str, Any]:
        self._newest = max(self._newest, _revision(answer))
        return answer

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send one request, and return the decoded answer. Raises KubeError."""
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", **(_MERGE if method == "PATCH" else {})},
                body=body,
                auth_settings=["BearerToken"],
            )
            reply = await self._api.call_api(*request, _request_timeout=REQUEST_TIMEOUT)
            self.answered(reply.status)
            self._date = reply.headers.get("Date", "")
            self.began = self.began or self.answered_at
            data = await reply.read()  # type: ignore[no-untyped-call]  # theirs
            if reply.status == 401:
                with suppress(NoAccount):
                    await _load(self._api.configuration)  # a new token, for the next request
            if not 200 <= reply.status < 300:
                raise ApiException(http_resp=reply, body=data.decode("utf-8", "replace"))
            return _read(data)
        except RAISED as error:
            raise translated(error, f"{method} {path}") from None


def _read(data: bytes) -> dict[str, Any]:
    """Decode JSON by msgspec, which is three times as fast as `json`; by `json` if msgspec refuses it, such as a
    text with an unpaired surrogate.
    """
    try:
        document: dict[str, Any] = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = json.loads(data)
    return document


def _revision(answer: Mapping[str, Any]) -> int:
    """The resourceVersion as a number; 0 if it is not one."""
    version = str(answer["metadata"].get("resourceVersion", ""))
    return int(version) if version.isdecimal() else 0


def _path(namespace: str, name: str = "") -> str:
    namespace_path = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{namespace_path}/{PLURAL}{f'/{name}' if name else ''}"
