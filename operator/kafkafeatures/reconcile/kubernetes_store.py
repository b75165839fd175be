"""Store of a resource in the API server: read for one reconciliation, its status replaced unless it changed since.

The operator owns the whole status, and every write names the
resourceVersion on which it was decided: if another client was faster, Conflict is raised, and the reconciliation starts
again from the new version. The server's answer to a write is compared with what was sent: an older schema of the CRD
silently drops fields, and with them an intent or a spent consent, so that a step could be sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.names import ACCEPT_RESTORED_LOG, APPROVE, PAUSE, RECONCILE
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.since_status import NotifiedStatus
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.status import EMPTY, Status, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.consents import repeatable
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import Conflict, Invalid, KubeError
from kafkafeatures.reconcile.ports import NotReadable, Resource, needs_write

_ALWAYS = {"spentConsents": [], "unverifiedConsents": [], "clusterId": ""}
"""Fields that are sent even if empty, so that a schema that drops them is noticed early: before a consent is used, and
before anything is sent to a cluster that the status could not record.
"""

_REMEMBERED = {
    "intents": "intents", "history": "history", "changeCount": "change_count", "spentConsents": "spent_consents",
}  # fmt: skip
"""Fields that decisions depend on, by name in JSON. If an older schema drops them, this process keeps their values."""

MAX_REQUEST = 64
"""Most characters of `status.lastHandledReconcileAt`."""


class SchemaOutdated(Exception):
    """The API server did not keep a status as it was written. `status`: the status that was sent."""

    def __init__(self, reason: str, status: Status) -> None:
        super().__init__(f"{reason}; install the CustomResourceDefinition of this release")
        self.status = status


@dataclass
class LastStatus:
    """The status of a resource that was read or written last, so that the same version is not parsed again.

    dropped: values of the fields that the server dropped at the last write, by attribute of `Status` (`_remembered`).
    dropped_of: uid and cluster id of the resource that they belong to.
    """

    dropped: Mapping[str, Any] = field(default_factory=dict)
    dropped_of: tuple[str, str] = ("", "")
    version: str = ""
    status: Status = EMPTY
    invalid_fields: tuple[str, ...] = ()

    def of_no_version(self) -> LastStatus:
        """The part that stays valid after etcd was restored, when versions may mean other states."""
        return LastStatus(dropped=self.dropped, dropped_of=self.dropped_of)


class KubernetesStore:
    """`ResourceStore` for one reconciliation. Call `fetch` first.

    writer: returns the identity of the operator for each write.
    last: state from earlier reconciliations.
    raw: the object as the API server had it last.
    status, invalid_fields: the readable part of its status, and the names of the other fields.
    written: resourceVersions that the writes of this reconciliation have made.
    kept: the status as it was fetched; after a write, the last one that the server kept whole.
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
        """Number of the document's version."""
        return int(self.raw["metadata"]["generation"])

    @property
    def is_whole(self) -> bool:
        """Tell whether the server has all fields that decisions depend on."""
        return not self._last.dropped

    @property
    def is_suspended(self) -> bool:
        """Tell whether the document or the annotation suspends the resource, even if the document is invalid."""
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
        """The resource that was fetched. Raises InvalidDocument: the schema cannot check everything."""
        return self.resource(read_document(self.raw))

    async def read_again(self) -> Resource:
        """The resource, read anew; the next write replaces that version. Raises NotReadable; Conflict if another client
        has written the status since, which a write would undo.
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
        """The resource for a document that was parsed before. Raises InvalidDocument."""
        desired_state = wanted_of(
            document,
            uid=self.raw["metadata"]["uid"],
            annotated=self._annotations.get(APPROVE, "").strip(),
            paused=self._is_paused,
            accepted_log=self._annotations.get(ACCEPT_RESTORED_LOG, "").strip(),
        )
        return Resource(str(self._key), self.generation, desired_state, self.status, self.invalid_fields)

    async def write_status(self, status: Status) -> None:
        """Write the status. Raises SchemaOutdated, Conflict, RequestRefused, Gone; Unavailable, after which it may have
        been written all the same.
        """
        dropped = await self._replace(status)
        _check(dropped, status)
        self.kept = status

    async def try_status(self, status: Status) -> None:
        """Check, by the server's dry run, that the status would be kept whole. Raises as `write_status`; nothing is
        written.
        """
        _check(await self._replace(status, dry_run=True), status)

    async def write_partly(self, status: Status) -> None:
        """Write a status, even if the server drops parts of it, unless it would change nothing."""
        if needs_write(self, status):
            await self._replace(status)

    async def acknowledge(self, notified: tuple[NotifiedStatus, ...]) -> None:
        """Note in the status that the request to reconcile (an annotation, as it was at `fetch`) was handled, and which
        notifications were delivered.
        """
        request = self._request or self.status.last_handled_reconcile_at
        if self._request or notified != self.status.notified:
            await self.write_partly(replace(self.status, last_handled_reconcile_at=request, notified=notified))

    async def _replace(self, status: Status, *, dry_run: bool = False) -> list[str]:
        """Replace the status; return the paths of dropped fields. Raises Conflict if the answer has another document:
        after a restore of etcd the same resourceVersion may stand for another state.
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
        """Take over the server's object. Values that the server has dropped stay, such as the intent of a step that was
        sent. `last_status`: the status in it, if this process has just written it, so that it need not be parsed.
        """
        self.raw, last = raw, self._last
        if last_status is not None:
            self.status, self.invalid_fields = last_status, ()
        elif self.version == last.version:
            self.status, self.invalid_fields = last.status, last.invalid_fields
        else:
            self.status, self.invalid_fields = _read(raw)
            # A status without a cluster id was deleted, or had no contact yet; one of another uid belongs to another
            # resource.
            if self.status.cluster_id and last.dropped_of == (raw["metadata"]["uid"], self.status.cluster_id):
                self.status = replace(self.status, **last.dropped)
        last.version, last.status, last.invalid_fields = self.version, self.status, self.invalid_fields


def _remembered(previous_status: Status, sent: Status, dropped: Iterable[str]) -> Mapping[str, Any]:
    """Values to keep for dropped fields, by attribute of `Status`: those that the server had before the write. Consents
    that `sent` has spent count too, unless it has a new intent: as the write counts as failed, its step is not sent and
    uses no consent. `dropped`: paths of the dropped fields.
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
    """The part that people write, to compare two versions."""
    metadata = raw["metadata"]
    return metadata["generation"], raw.get("spec"), metadata.get("annotations") or {}


def _read(raw: Mapping[str, Any]) -> tuple[Status, tuple[str, ...]]:
    """The status, and the names of its invalid fields.

    If the schema dropped the list of spent consents, all consents of the document count as spent; if it dropped the
    unverified ones, all count as unverified. Both lists become part of the next write: once the CRD is updated, nothing
    else shows that they were dropped.
    """
    stored = raw.get("status") or {}
    status, invalid_fields = read_status({name: value for name, value in stored.items() if name != "operator"})
    consents = raw.get("spec", {}).get("consents")
    # Both lists are always sent (`_ALWAYS`). So one is missing only if the schema dropped it, or nobody wrote it yet.
    is_outdated = status.is_stalled(Reason.SCHEMA_OUTDATED)
    if consents and is_outdated and "unverifiedConsents" not in stored:
        status = replace(status, unverified_consents=tuple(sorted(repeatable(consents))))
    was_written = "operator" in stored or is_outdated
    # Without a history no step has ended, and no consent was spent.
    if consents and was_written and "spentConsents" not in stored and status.history:
        status = replace(status, spent_consents=tuple(sorted(set(consents))))
    return status, invalid_fields


def dropped_fields(sent: Any, kept: Any, path: str = "status") -> Iterator[str]:
    """Paths of fields that were sent and are missing in `kept`. Values are not compared, as the server may format them
    differently.
    """
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
