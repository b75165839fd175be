"""An API server in memory, for fast tests: one store, any number of clients, faults where a test wants them.

It keeps what a real one promises and an operator may rely on: versions that only grow, optimistic conflicts, a status
subresource, generations, pruning and validation by the CRD, finalizers, field managers, pages, watches that expire. And
it does what a real one may do: answer reads from a cache that lags, lose requests and answers, refuse. `conformance.py`
holds it against a real one. Nothing here waits, draws lots or reads a clock: time and faults come in.

A client is production's own `KubeApi` over a connection that is a function call.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from kubernetes.aio.client import ApiClient

from kafkafeatures.api.names import API_VERSION, GROUP, KIND, PLURAL
from kafkafeatures.kube.client import KubeApi
from tests.simulated import schema
from tests.simulated.connection import Connection
from tests.simulated.objects import (
    OUR_KIND,
    PATH,
    Json,
    again,
    collection_of,
    copied,
    encoded,
    is_in,
    is_selected,
    manage_annotations,
    merged,
)
from tests.simulated.requests import Faults, Reply, Request, no_faults, refusal
from tests.simulated.store import START, Expired, Store

_DISCOVERY: Mapping[str, Json] = {
    "/apis": {"groups": [{"name": GROUP}]},
    OUR_KIND: {"resources": [{"name": PLURAL, "kind": KIND, "namespaced": True}]},
}


class ApiServer(Store):
    """The store with the rules for requests, and what a test does to it.

    `schema` is that of the CRD in force; `forbidden`: plurals, also with a subresource, that no client may read or
    write. `status_writes`: by field manager. `evictor`: what becomes of an eviction (`tests/simulated/workloads.py`);
    without, pods are deleted at once. `patched` hears of what was patched.

    `cache_lag`: so many writes is the watch cache behind, from which `resourceVersion=0` is answered.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: START) -> None:
        super().__init__(now)
        self.schema: Mapping[str, Any] = schema.current()
        self.forbidden: set[str] = set()
        self.cache_lag = 0
        self.status_writes: Counter[str] = Counter()
        self.evictor: Callable[[Json], Reply | None] = lambda pod: None
        self.patched: Callable[[Json], None] = lambda pod: None
        self._written_out: dict[int, tuple[Json, bytes]] = {}
        self._kept: dict[str, tuple[Mapping[str, Any], Json]] = {}  # by path, the last spec that a schema kept

    # --- what a test does and sees ---

    def client(self, faults: Faults = no_faults, latency: Callable[[], Awaitable[None]] | None = None) -> KubeApi:
        """A connection of one process: when it began, and which versions it saw, is its own."""
        return KubeApi(cast(ApiClient, Connection(self, faults, latency)))

    def create(self, namespace: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Json:
        """A KafkaFeatures, as a person applies it. AssertionError where the schema refuses it."""
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name, **metadata}, "spec": spec}
        return again(self._done(Request("POST", collection_of(namespace), body=body)))

    def put(
        self, namespace: str, plural: str, name: str, *, labels: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        """A Secret or a ConfigMap, new or in place of the one that was there."""
        path = f"/api/v1/namespaces/{namespace}/{plural}/{name}"
        metadata = {"namespace": namespace, "name": name, "uid": self._uid(), "labels": dict(labels or {})}
        self._store(path, {"metadata": metadata, **fields}, "MODIFIED")

    def get(self, namespace: str, name: str) -> Json | None:
        """A copy of a KafkaFeatures as it is now; None where there is none."""
        found = self.stored(namespace, name)
        return None if found is None else again(found)

    def stored(self, namespace: str, name: str) -> Json | None:
        """The stored object itself, which must not be changed."""
        return self._objects.get(f"{collection_of(namespace)}/{name}")

    def edit(
        self, namespace: str, name: str, change: Callable[[Json], object], *, manager: str = "kubectl-edit"
    ) -> Json:
        """Whatever a person does to spec and metadata."""
        return again(self._written(namespace, name, "", change, manager))

    def edit_status(
        self, namespace: str, name: str, change: Callable[[Json], object], *, manager: str = "kubectl-edit"
    ) -> Json:
        """Whatever a person does to a status; `change` gets the object."""
        return again(self._written(namespace, name, "/status", change, manager))

    def change(self, namespace: str, name: str, change: Callable[[Json], object]) -> None:
        """Edits an object, as `edit` does, without returning it."""
        self._written(namespace, name, "", change, "kubectl-edit")

    def uid(self, namespace: str, name: str) -> str:
        """The uid of a KafkaFeatures; empty where there is none."""
        found = self.stored(namespace, name)
        return "" if found is None else str(found["metadata"]["uid"])

    def delete(self, namespace: str, name: str) -> None:
        """Gone at once, or as soon as the last finalizer is."""
        self._done(Request("DELETE", f"{collection_of(namespace)}/{name}"))

    # --- requests ---

    def answer(self, request: Request, lag: int = 0) -> Reply:
        """One request, carried out at once; what it answers belongs to the server. `lag`: a read shows what was so many
        writes ago.
        """
        if request.path in _DISCOVERY:
            return Reply(200, _DISCOVERY[request.path])
        parts = PATH.fullmatch(request.path)
        if parts is None:
            return refusal(404, "the server could not find the requested resource")
        kind = f"{parts['plural']}/{parts['subresource']}" if parts["subresource"] else parts["plural"]
        if kind in self.forbidden:
            return refusal(403, f'{kind} "{parts["name"] or ""}" is forbidden: no RBAC policy matched')
        if parts["subresource"] == "eviction":
            return self._evicted(request, parts)
        match request.method, parts["name"]:
            case "GET", None:
                return self._watched(request) if "watch" in request.query else self._listed(request, parts, lag)
            case "GET", _:
                found = self._at(self._as_of(request, lag)).get(request.path.removesuffix("/status"))
                return _missing(parts) if found is None else Reply(200, found)
            case "POST", None:
                return self._created(request, parts)
            case "PUT", name if name is not None:
                return self._replaced(request, parts)
            case "PATCH", name if name is not None and parts["plural"] != PLURAL:
                return self._patched(request, parts)
            case "DELETE", name if name is not None:
                return self._deleted(request, parts)
        return refusal(405, "the server does not allow this method on the requested resource")

    def _as_of(self, request: Request, lag: int) -> int:
        cached = self.cache_lag if request.query.get("resourceVersion") == "0" else 0
        return max(self._revision - max(lag, cached), 1)

    def _listed(self, request: Request, parts: re.Match[str], lag: int) -> Reply:
        token = request.query.get("continue")
        revision, begin = json.loads(token) if token else (self._as_of(request, lag), 0)
        if revision < self._compacted and token:
            return refusal(410, "the provided continue parameter is too old to display a consistent list result")
        there = self._at(revision)
        selector, fields = (request.query.get(name, "") for name in ("labelSelector", "fieldSelector"))
        name = fields.removeprefix("metadata.name=")  # the only field by which pods are selected here
        paths = sorted(
            path
            for path in there
            if is_in(path, parts) and is_selected(there[path], selector)
            if name == fields or path.endswith(f"/{name}")
        )
        end = begin + int(request.query.get("limit") or len(paths) or 1)
        metadata = {"resourceVersion": str(revision)}
        if end < len(paths):
            metadata["continue"] = json.dumps([revision, end])
        return Reply(200, {"metadata": metadata, "items": [there[path] for path in paths[begin:end]]})

    def _watched(self, request: Request) -> Reply:
        parts = PATH.fullmatch(request.path)
        since = int(request.query.get("resourceVersion") or self._revision)
        try:
            return Reply(200, list(self.since(since, parts["namespace"] or "" if parts else "")))
        except Expired:
            gone = refusal(410, f"too old resource version: {since} ({self._revision})")
            return Reply(200, [{"type": "ERROR", "object": gone.body}])

    def _created(self, request: Request, parts: re.Match[str]) -> Reply:
        name, namespace = request.body["metadata"]["name"], parts["namespace"]
        path = f"{request.path}/{name}"
        if path in self._objects:
            return refusal(409, f'{parts["plural"]} "{name}" already exists')
        made = {**copied(request.body), "metadata": {**request.body["metadata"], "namespace": namespace}}
        metadata = made["metadata"]
        metadata |= {"uid": self._uid(), "creationTimestamp": metadata.get("creationTimestamp") or self._stamp()}
        if parts["plural"] == PLURAL:
            made.pop("status", None)
            metadata["generation"] = 1
            made, problems = self._fitted(path, made)
            if problems:
                return self._invalid(name, problems)
            self._manage(made, request, "")
        self._store(path, made, "ADDED")
        return Reply(201, made)

    def _replaced(self, request: Request, parts: re.Match[str]) -> Reply:
        path, of_status = request.path.removesuffix("/status"), parts["subresource"] == "status"
        there, sent = self._objects.get(path), request.body["metadata"]
        if there is None:
            return _missing(parts)
        for name in ("uid", "resourceVersion"):
            if sent.get(name, there["metadata"][name]) != there["metadata"][name]:
                return _modified(parts)
        new = {**there, "metadata": dict(there["metadata"])}
        if of_status:
            new["status"] = request.body.get("status")
        else:
            new["spec"] = request.body.get("spec")
            for name in ("annotations", "labels", "finalizers", "ownerReferences"):
                new["metadata"].pop(name, None)
                if sent.get(name):
                    new["metadata"][name] = copied(sent[name])
        if new.get("status") is None:
            new.pop("status", None)
        if parts["plural"] == PLURAL:
            new, problems = self._fitted(path, new)
            if problems:
                return self._invalid(str(parts["name"]), problems)
        if new == there:
            return Reply(200, there)
        if new["spec"] != there["spec"]:
            new["metadata"]["generation"] = new["metadata"].get("generation", 0) + 1
        self._manage(new, request, "status" if of_status else "")
        if "dryRun" in request.query:
            return Reply(200, new)
        if of_status:
            self.status_writes[request.query.get("fieldManager", "unknown")] += 1
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self._remove(path, new)
        else:
            self._store(path, new, "MODIFIED", request)
        return Reply(200, new)

    def _deleted(self, request: Request, parts: re.Match[str]) -> Reply:
        there = self._objects.get(request.path)
        if there is None:
            return _missing(parts)
        gone = {**there, "metadata": dict(there["metadata"])}
        if not there["metadata"].get("finalizers"):
            self._remove(request.path, gone)
        elif "deletionTimestamp" not in gone["metadata"]:
            gone["metadata"]["deletionTimestamp"] = self._stamp()
            gone["metadata"]["generation"] += 1
            self._store(request.path, gone, "MODIFIED")
        return Reply(200, gone)

    def _patched(self, request: Request, parts: re.Match[str]) -> Reply:
        """A merge patch of an object that no schema of ours describes, such as a pod."""
        there = self._objects.get(request.path)
        if there is None:
            return _missing(parts)
        if request.body.get("metadata", {}).get("uid", there["metadata"]["uid"]) != there["metadata"]["uid"]:
            return refusal(422, f'Pod "{parts["name"]}" is invalid: metadata.uid: Invalid value: field is immutable')
        version = there["metadata"]["resourceVersion"]
        if request.body.get("metadata", {}).get("resourceVersion", version) != version:
            return _modified(parts)
        patched = merged(copied(there), request.body)
        manage_annotations(there, patched, request.query.get("fieldManager", "kafka-features-operator"))
        self._store(request.path, patched, "MODIFIED", request)
        self.patched(patched)
        return Reply(200, self._objects[request.path])

    def _evicted(self, request: Request, parts: re.Match[str]) -> Reply:
        path = request.path.removesuffix("/eviction")
        there = self._objects.get(path)
        if there is None:
            return _missing(parts)
        expected = ((request.body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        uid = there["metadata"]["uid"]
        if expected not in (None, uid):
            text = f"the UID in the precondition ({expected}) does not match the UID in record ({uid})"
            return refusal(409, f'Operation cannot be fulfilled on Pod "{parts["name"]}": {text}')
        refused = self.evictor(there)
        if refused is not None:
            return refused
        if path in self._objects and "deletionTimestamp" not in self._objects[path]["metadata"]:
            self._remove(path, copied(there))
        return Reply(201, {"kind": "Status", "status": "Success", "code": 201})

    def written(self, body: Json) -> bytes:
        """The bytes of an object as they are sent; what is stored is encoded once."""
        if "spec" not in body:
            return encoded(body)
        known = self._written_out.get(id(body))
        if known is None or known[0] is not body:
            known = self._written_out[id(body)] = body, encoded(body)
        return known[1]

    # --- inside ---

    def _done(self, request: Request) -> Json:
        reply = self.answer(request)
        assert reply.status in (200, 201), reply.body
        made: Json = reply.body
        return made

    def _written(self, namespace: str, name: str, sub: str, change: Callable[[Json], object], manager: str) -> Json:
        there = self.stored(namespace, name)
        assert there is not None, f"there is no {namespace}/{name}"
        theirs = there if sub else {each: one for each, one in there.items() if each != "status"}
        found = {**there, **again(theirs)}  # what is not theirs to change is not copied
        change(found)
        path = f"{collection_of(namespace)}/{name}{sub}"
        return self._done(Request("PUT", path, {"fieldManager": manager}, found))

    def _fitted(self, path: str, made: Json) -> tuple[Json, list[str]]:
        """The object as the schema keeps it, and the problems. A spec that it kept before, and that was not replaced
        since, is not validated again.
        """
        problems: list[str] = []
        kept = {name: one for name, one in made.items() if name != "metadata"}
        by, spec = self._kept.get(path, (None, None))
        if by is self.schema and made.get("spec") is spec and "status" in made:
            kept["status"] = schema.fitter(self.schema["properties"]["status"])(made["status"], problems)
            problems = [f".status{one}" for one in problems]
        else:
            kept = schema.fitter(self.schema)(kept, problems)
            if not problems:
                self._kept[path] = self.schema, kept["spec"]
        return {**kept, "metadata": made["metadata"]}, problems

    def _invalid(self, name: str, problems: list[str]) -> Reply:
        return refusal(422, f'{KIND}.{GROUP} "{name}" is invalid: {", ".join(one.lstrip(".") for one in problems)}')

    def _manage(self, made: Json, request: Request, subresource: str) -> None:
        manager = request.query.get("fieldManager", "unknown")
        mine = (manager, subresource)
        others = [
            one
            for one in made["metadata"].get("managedFields", ())
            if (one["manager"], one.get("subresource", "")) != mine
        ]
        entry = {"manager": manager, "operation": "Update", "time": self._stamp()}
        made["metadata"]["managedFields"] = [*others, entry | ({"subresource": subresource} if subresource else {})]


def _missing(parts: re.Match[str]) -> Reply:
    reply = refusal(404, f'{parts["plural"]} "{parts["name"]}" not found')
    return replace(reply, body=reply.body | {"details": {"name": parts["name"]}})


def _modified(parts: re.Match[str]) -> Reply:
    message = "the object has been modified; please apply your changes to the latest version and try again"
    return refusal(409, f'Operation cannot be fulfilled on {parts["plural"]} "{parts["name"]}": {message}')
