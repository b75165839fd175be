"""A resource in the API server: read once per reconciliation, its status replaced where it did not change meanwhile.

Used by the operator. One writer owns the whole status, and every write names the version it was decided on: a lost race
raises Conflict, and the reconciliation is done again on what is there then. What the server made of a write is compared
with what was written: an older schema drops fields without a word, and with them what keeps an act from being done
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.names import ACCEPT_RESTORED_LOG, APPROVE, PAUSE, RECONCILE
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.status import EMPTY, Status, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.consents import repeatable
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import Conflict, Invalid, KubeError
from kafkafeatures.reconcile.ports import NotReadable, Resource, needs_write

_ALWAYS = {"spentConsents": [], "unverifiedConsents": [], "clusterId": ""}
"""Sent also where they are empty: a schema that does not keep them is found out before a consent is used, or anything
is sent to a cluster that the status could not be bound to."""

_REMEMBERED = {
    "intents": "intents", "history": "history", "changeCount": "change_count", "spentConsents": "spent_consents",
}  # fmt: skip
"""By its name in JSON, what decisions rest on: kept at one write, it may be dropped at the next by an older schema."""

MAX_REQUEST = 64
"""Characters of `status.lastHandledReconcileAt`."""


class SchemaOutdated(Exception):
    """The API server did not keep a status as it was written. `status`: the one that was."""

    def __init__(self, reason: str, status: Status) -> None:
        super().__init__(f"{reason}; install the CustomResourceDefinition of this release")
        self.status = status


@dataclass
class LastStatus:
    """The status of a resource that was read or written last: the same version is not read again. `dropped`: what the
    server had of it, by attribute, and did not keep at the last write. `dropped_of`: of which uid and cluster.
    """

    dropped: Mapping[str, Any] = field(default_factory=dict)
    dropped_of: tuple[str, str] = ("", "")
    version: str = ""
    status: Status = EMPTY
    invalid_fields: tuple[str, ...] = ()

    def of_no_version(self) -> LastStatus:
        """The part that outlives a restore of etcd, since which a version may stand for something else."""
        return LastStatus(dropped=self.dropped, dropped_of=self.dropped_of)


class KubernetesStore:
    """`ResourceStore` for one reconciliation. `fetch` comes first.

    `writer`: who writes, asked at each write. `raw`: the object as the API server has it, as far as is known here.
    `status`: what can be understood of it; `invalid_fields`: what cannot. `written`: every version made by a write.
    `kept`: the last status that the server holds, or held, as a whole. `last`: of the reconciliations before.
    """

    def __init__(
        self,
        api: KubernetesApi,
        key: ResourceKey,
        writer: Callable[[], OperatorIdentity],
        last: LastStatus | None = None,
    ) -> None:
        self._api = api
        self._key = key
        self._writer = writer
        self._last = last or LastStatus()
        self._request = ""
        self.raw: Mapping[str, Any] = {}
        self.status, self.kept = EMPTY, EMPTY
        self.written: set[str] = set()
        self.invalid_fields: tuple[str, ...] = ()

    async def fetch(self) -> None:
        """Read the object. Raises Gone."""
        self._adopt(await self._api.resource(self._key))
        self.kept = self.status
        self._request = self._annotations.get(RECONCILE, "").strip()[:MAX_REQUEST]

    @property
    def generation(self) -> int:
        return int(self.raw["metadata"]["generation"])

    @property
    def is_whole(self) -> bool:
        """Tell whether the server's copy has all that is remembered of what it once had."""
        return not self._last.dropped

    @property
    def is_suspended(self) -> bool:
        """Tell whether the document or the annotation suspends it, also where the document is not valid."""
        return self._is_paused or (self.raw.get("spec") or {}).get("suspend") is True

    @property
    def _annotations(self) -> Mapping[str, str]:
        return self.raw["metadata"].get("annotations") or {}

    @property
    def _is_paused(self) -> bool:
        return self._annotations.get(PAUSE) == "true"

    @property
    def version(self) -> str:
        """The resourceVersion."""
        return str(self.raw["metadata"]["resourceVersion"])

    async def read(self) -> Resource:
        """The resource that was fetched, as types. Raises InvalidDocument: the schema cannot see everything."""
        return self.resource(read_document(self.raw))

    async def read_again(self) -> Resource:
        """Reads the resource as it is now; the next write replaces that version. Raises NotReadable; and Conflict where
        the status was written by another client meanwhile, which would be lost.
        """
        ours = self.status
        try:
            self._adopt(await self._api.resource(self._key))
            resource = await self.read()
        except (KubeError, InvalidDocument) as error:
            raise NotReadable(f"the resource could not be read again: {error}") from None
        if self.status != ours:
            raise Conflict(f"{self._key}: its status was changed meanwhile")
        return resource

    def resource(self, document: KafkaFeatures) -> Resource:
        """The resource, made of a document that was parsed before. Raises InvalidDocument."""
        desired_state = wanted_of(
            document,
            uid=self.raw["metadata"]["uid"],
            annotated=self._annotations.get(APPROVE, "").strip(),
            paused=self._is_paused,
            accepted_log=self._annotations.get(ACCEPT_RESTORED_LOG, "").strip(),
        )
        return Resource(str(self._key), self.generation, desired_state, self.status, self.invalid_fields)

    async def write_status(self, status: Status) -> None:
        """Raises SchemaOutdated, Conflict, Refused, Gone; Unavailable: it may have been written."""
        dropped = await self._replace(status)
        _check(dropped, status)
        self.kept = status

    async def try_status(self, status: Status) -> None:
        """Have the server say what it would make of it. Raises as `write_status`; nothing is written."""
        _check(await self._replace(status, dry_run=True), status)

    async def write_what_is_kept(self, status: Status) -> None:
        """Write a status although the server does not keep all of it; not where that would change nothing."""
        if needs_write(self, status):
            await self._replace(status)

    async def answer_request(self) -> None:
        """Write that the request which was there when the object was fetched is answered, where it was not before."""
        if self._request:
            await self.write_what_is_kept(replace(self.status, last_handled_reconcile_at=self._request))

    async def _replace(self, status: Status, *, dry_run: bool = False) -> list[str]:
        """The fields that were not kept. Raises Conflict where it became the status of another document: a restored
        etcd gives the same resourceVersion to something else.
        """
        writer = self._writer()
        body = {**_ALWAYS, **status.as_json(), "operator": writer.shape}
        try:
            answer = await self._api.replace_status(self.raw, body, manager=writer.manager, dry_run=dry_run)
        except Invalid as error:
            raise SchemaOutdated(f"the API server rejects the status ({error})", status) from None
        if _document_of(answer) != _document_of(self.raw):
            raise Conflict(f"{self._key}: its resourceVersion was that of another document, as after a restore of etcd")
        as_sent = answer.get("status") == body
        dropped = [] if as_sent else list(dropped_fields(body, answer.get("status")))
        if not dry_run:
            self._last.dropped = _remembered(self.status, status, dropped)
            self._last.dropped_of = str(self.raw["metadata"]["uid"]), status.cluster_id
            self._adopt(answer, status if as_sent else None)
            self.written.add(self.version)
        return dropped

    def _adopt(self, raw: Mapping[str, Any], last_status: Status | None = None) -> None:
        """Take over what the server returned, without the name of the writer, which no decision reads. `last_status`:
        the status in it, where we wrote it. What it dropped is still so: also that a step was sent, of which it says
        nothing now.
        """
        self.raw, last = raw, self._last
        if last_status is not None:
            self.status, self.invalid_fields = last_status, ()
        elif self.version == last.version:
            self.status, self.invalid_fields = last.status, last.invalid_fields
        else:
            self.status, self.invalid_fields = _read(raw)
            # Without a cluster it was lost, or is of before the first contact; with another uid it is another one's.
            if self.status.cluster_id and last.dropped_of == (raw["metadata"]["uid"], self.status.cluster_id):
                self.status = replace(self.status, **last.dropped)
        last.version, last.status, last.invalid_fields = self.version, self.status, self.invalid_fields


def _remembered(previous_status: Status, sent: Status, dropped: Iterable[str]) -> Mapping[str, Any]:
    """By attribute, what the server had of the dropped fields. What was used up and counted without a new step stays
    so; a step whose intent could not be written was not sent, and has used nothing. `dropped`: paths.
    """
    names = {path.split(".")[1].removesuffix("[]") for path in dropped if "." in path}
    values = {
        attribute: getattr(previous_status, attribute) for name, attribute in _REMEMBERED.items() if name in names
    }
    if "spent_consents" in values and all(intent in previous_status.intents for intent in sent.intents):
        values["spent_consents"] = tuple(sorted({*previous_status.spent_consents, *sent.spent_consents}))
    if "change_count" in values:
        values["change_count"] = max(previous_status.change_count, sent.change_count)
    return values


def _document_of(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """The part that people write; the same in two versions unless it was changed between them."""
    metadata = raw["metadata"]
    return metadata["generation"], raw.get("spec"), metadata.get("annotations") or {}


def _read(raw: Mapping[str, Any]) -> tuple[Status, tuple[str, ...]]:
    """The status, and the fields that cannot be understood.

    Where the schema did not keep which consents were used, all of the document may have been; the same where it did not
    keep which may have been used before. That is part of the next write, so that it outlives the signs that it is
    derived from.
    """
    stored = raw.get("status") or {}
    status, invalid_fields = read_status({name: value for name, value in stored.items() if name != "operator"})
    consents = raw.get("spec", {}).get("consents")
    is_outdated = status.is_stalled(Reason.SCHEMA_OUTDATED)
    if consents and is_outdated and "unverifiedConsents" not in stored:
        status = replace(status, unverified_consents=tuple(sorted(repeatable(consents))))
    was_written = "operator" in stored or is_outdated
    if consents and was_written and "spentConsents" not in stored and status.history:
        status = replace(status, spent_consents=tuple(sorted(set(consents))))
    return status, invalid_fields


def dropped_fields(sent: Any, kept: Any, path: str = "status") -> Iterator[str]:
    """Paths of what is missing in `kept` and was sent. Values may be written in another way: they are not compared."""
    if isinstance(sent, dict):
        if not isinstance(kept, dict):
            yield path
            return
        for name, value in sent.items():
            if name not in kept:
                yield f"{path}.{name}"
            elif value != kept[name]:
                yield from dropped_fields(value, kept[name], f"{path}.{name}")
    elif isinstance(sent, list):
        if not isinstance(kept, list) or len(kept) < len(sent):
            yield path
            return
        for element, other in zip(sent, kept, strict=False):
            yield from dropped_fields(element, other, f"{path}[]")


def _check(dropped: list[str], status: Status) -> None:
    if dropped:
        raise SchemaOutdated(f"the API server drops {', '.join(dict.fromkeys(dropped))}", status)
