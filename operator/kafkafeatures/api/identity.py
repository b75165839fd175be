"""Identity of an operator that writes statuses: as it stands in `status.operator`, and in the `managedFields` of the
API server. Two operators that write the same status are detected by it (`reconcile/operators.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkafeatures.api.names import GROUP

MAX_MANAGER = 128
"""Characters of a field manager; the API server takes no more."""


class OperatorIdentity(Struct, frozen=True):
    """An operator and one of its processes.

    namespace, name: those of its Deployment; outside of a pod the namespace is empty.
    instance: the process; in a pod, the pod's name.
    """

    namespace: str
    name: str
    instance: str

    def __str__(self) -> str:
        qualified_name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{qualified_name} ({self.instance})"

    @property
    def manager(self) -> str:
        """The field manager of the operator. It is the same for all its processes; otherwise `managedFields` would grow
        with each restart.
        """
        return "/".join(filter(None, (GROUP, self.namespace, self.name)))[:MAX_MANAGER]

    @property
    def shape(self) -> dict[str, str]:
        """The operator as it stands in `status.operator`."""
        fields = {"namespace": self.namespace, "name": self.name, "instance": self.instance}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> OperatorIdentity | None:
        """The operator that wrote the status of this resource last; None where none is named."""
        shape = (resource.get("status") or {}).get("operator")
        if not isinstance(shape, Mapping) or not shape.get("instance"):
            return None
        return cls(*(str(shape.get(name, "")) for name in ("namespace", "name", "instance")))
