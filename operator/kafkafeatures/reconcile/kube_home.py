"""A resource that lives in the API server: read once per pass, its status replaced where it did not change meanwhile.

Used by the operator. One writer owns the whole status, and every write names the version it was decided on: a lost race
raises Conflict, and the pass is done again on what is there then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkafeatures.api.document import read_document
from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.kube.client import Key, KubeApi
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.shapes import misshapen
from kafkafeatures.reconcile.wanted import wanted_of


class KubeHome:
    """`Home` of `reconcile/ports.py` for one pass. `fetch` comes first. `written`: every version made by a write."""

    def __init__(self, api: KubeApi, key: Key) -> None:
        self._api = api
        self._key = key
        self.written: set[str] = set()
        self._object: Mapping[str, Any] = {}
        self._document: KafkaFeatures | None = None

    async def fetch(self) -> None:
        """Read the object. Raises Gone."""
        self._object = await self._api.resource(self._key)
        self._document = None

    @property
    def raw(self) -> Mapping[str, Any]:
        """The object as the API server has it, as far as this pass knows."""
        return self._object

    @property
    def status(self) -> Mapping[str, Any]:
        """What can be understood of its status; empty where there is none yet."""
        status: Mapping[str, Any] = self._object.get("status") or {}
        odd = misshapen(status)
        return {name: value for name, value in status.items() if name not in odd} if odd else status

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

    async def mend(self) -> None:
        """Take out of the status what cannot be understood, so that what follows is compared with what is there."""
        if self.status != (self._object.get("status") or {}):
            await self.write_status(self.status)

    async def write_status(self, status: Mapping[str, Any]) -> None:
        """As the port says. Raises Conflict, Refused, Gone; Unavailable: nobody knows whether it was written."""
        self._object = await self._api.replace_status(self._object, status)
        self.written.add(self._object["metadata"]["resourceVersion"])
