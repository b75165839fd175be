"""A resource that lives in the API server: read once per pass, its status replaced where it did not change meanwhile.

Used by the operator. One writer owns the whole status, and every write names the version it was decided on: a lost race
raises Conflict, and the pass is done again on what is there then. What the server made of a write is compared with what
was written: an older schema drops fields without a word, and with them what keeps an act from being done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafkafeatures.api.document import read_document
from kafkafeatures.api.identity import Operator
from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.kube.api import Key, KubernetesApi
from kafkafeatures.kube.errors import Invalid
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.shapes import misshapen
from kafkafeatures.reconcile.wanted import wanted_of

_ALWAYS = "spentConsents"
"""Sent also where it is empty: a schema that does not keep it is found out before a consent is used."""


class SchemaOutdated(Exception):
    """The API server did not keep a status as it was written. `status`: the one that was."""

    def __init__(self, why: str, status: Mapping[str, Any]) -> None:
        super().__init__(f"{why}; install the CustomResourceDefinition of this release")
        self.status = status


class KubeHome:
    """`Home` of `reconcile/ports.py` for one pass. `fetch` comes first.

    `writer`: who writes, asked at each write. `written`: every version made by a write. `kept`: the last status that
    the server holds, or held, as a whole.
    """

    def __init__(self, api: KubernetesApi, key: Key, writer: Callable[[], Operator]) -> None:
        self._api = api
        self._key = key
        self._writer = writer
        self.written: set[str] = set()
        self.kept: Mapping[str, Any] = {}
        self._object: Mapping[str, Any] = {}
        self._document: KafkaFeatures | None = None

    async def fetch(self) -> None:
        """Read the object. Raises Gone."""
        self._object = await self._api.resource(self._key)
        self._document = None
        self.kept = self.status

    @property
    def raw(self) -> Mapping[str, Any]:
        """The object as the API server has it, as far as this pass knows."""
        return self._object

    @property
    def status(self) -> Mapping[str, Any]:
        """What can be understood of its status; empty where there is none yet. Without who wrote it.

        Where the schema did not keep which consents were used, all of the document may have been. That is part of
        whatever is written next, so that it outlives the signs it is told from.
        """
        stored = self._stored
        without = {*misshapen(stored), "operator"} | (set() if stored.get(_ALWAYS) else {_ALWAYS})
        status = {name: value for name, value in stored.items() if name not in without}
        consents = self._object.get("spec", {}).get("consents")
        sent = "operator" in stored or _stalled(status, Reason.SCHEMA_OUTDATED)
        if consents and sent and _ALWAYS not in stored and status.get("history"):
            status[_ALWAYS] = sorted(set(consents))
        return status

    @property
    def _stored(self) -> Mapping[str, Any]:
        return self._object.get("status") or {}

    @property
    def generation(self) -> int:
        """Of the spec."""
        return int(self._object["metadata"]["generation"])

    def document(self) -> KafkaFeatures:
        """The spec as types. Raises InvalidDocument: the schema cannot see everything."""
        if self._document is None:
            self._document = read_document(self._object)
        return self._document

    async def read(self) -> Resource:
        """As the port says, of what was fetched. Raises InvalidDocument."""
        metadata = self._object["metadata"]
        annotations = metadata.get("annotations") or {}
        approval = annotations.get(APPROVE, "").strip()
        wanted = wanted_of(
            self.document(),
            uid=metadata["uid"],
            approvals=frozenset({approval} if approval else ()),
            paused=annotations.get(PAUSE) == "true",
        )
        return Resource(str(self._key), self.generation, wanted, self.status)

    def stalled(self, reason: Reason) -> Mapping[str, Any]:
        """The condition Stalled where it has this reason; empty where it has not."""
        return _stalled(self.status, reason)

    async def mend(self) -> None:
        """Take out of the status what cannot be understood, so that what follows is compared with what is there."""
        if misshapen(self._stored):
            await self.write_status(self.status)

    async def write_status(self, status: Mapping[str, Any]) -> None:
        """As the port says. Raises SchemaOutdated, Conflict, Refused, Gone; Unavailable: it may have been written."""
        self._object, dropped = await self._replace(status)
        self.written.add(self._object["metadata"]["resourceVersion"])
        _check(dropped, status)
        self.kept = status

    async def try_status(self, status: Mapping[str, Any]) -> None:
        """Have the server say what it would make of it. Raises as `write_status`; nothing is written."""
        _, dropped = await self._replace(status, dry_run=True)
        _check(dropped, status)

    async def write_as_it_goes(self, status: Mapping[str, Any]) -> None:
        """Also where the server does not keep all of it; not where that would change nothing."""
        if status != self.status:
            self._object, _ = await self._replace(status)
            self.written.add(self._object["metadata"]["resourceVersion"])

    async def _replace(
        self, status: Mapping[str, Any], *, dry_run: bool = False
    ) -> tuple[Mapping[str, Any], list[str]]:
        writer = self._writer()
        sent = {_ALWAYS: [], **status, "operator": writer.shape}
        try:
            answer = await self._api.replace_status(self._object, sent, manager=writer.manager, dry_run=dry_run)
        except Invalid as error:
            raise SchemaOutdated(f"the API server rejects the status ({error})", status) from None
        return answer, list(dropped_fields(sent, answer.get("status")))


def _stalled(status: Mapping[str, Any], reason: Reason) -> Mapping[str, Any]:
    said = (one for one in status.get("conditions", ()) if one["type"] == Condition.STALLED)
    return next((one for one in said if one["reason"] == reason), {})


def dropped_fields(sent: Any, kept: Any, path: str = "status") -> Iterator[str]:
    """What is missing in `kept` of what was sent. Values may be written in another way: they are not compared."""
    if isinstance(sent, Mapping):
        if not isinstance(kept, Mapping):
            yield path
            return
        for name, value in sent.items():
            if name not in kept:
                yield f"{path}.{name}"
            else:
                yield from dropped_fields(value, kept[name], f"{path}.{name}")
    elif isinstance(sent, list):
        if not isinstance(kept, list) or len(kept) < len(sent):
            yield path
            return
        for one, other in zip(sent, kept, strict=False):
            yield from dropped_fields(one, other, f"{path}[]")


def _check(dropped: list[str], status: Mapping[str, Any]) -> None:
    if dropped:
        raise SchemaOutdated(f"the API server drops {', '.join(dict.fromkeys(dropped))}", status)
