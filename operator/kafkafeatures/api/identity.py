"""Who writes a status: the operator that is named in it, and to the API server's `managedFields`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkafeatures.api.names import GROUP

MAX_MANAGER = 128
"""Characters of a field manager; the API server takes no more."""


class OperatorIdentity(Struct, frozen=True):
    """`instance`: which of its processes; in a pod, the pod's name. Outside of pods there is no namespace."""

    namespace: str
    name: str
    instance: str

    def __str__(self) -> str:
        qualified_name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{qualified_name} ({self.instance})"

    @property
    def manager(self) -> str:
        """The field manager of the operator: of all its processes the same, or `managedFields` would grow with each
        restart.
        """
        return "/".join(filter(None, (GROUP, self.namespace, self.name)))[:MAX_MANAGER]

    @property
    def shape(self) -> dict[str, str]:
        """The operator as `status.operator` names it."""
        fields = {"namespace": self.namespace, "name": self.name, "instance": self.instance}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> OperatorIdentity | None:
        """The one that wrote its status last; None where none is named."""
        shape = (resource.get("status") or {}).get("operator")
        if not isinstance(shape, Mapping) or not shape.get("instance"):
            return None
        return cls(*(str(shape.get(name, "")) for name in ("namespace", "name", "instance")))
