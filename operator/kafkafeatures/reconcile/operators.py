"""Which operator wrote a status, and whether two of them write the same ones.

Every write of a status names its operator. One that names another operator is a hand-over where it was made before this
process began: a pod was replaced. Where it was made since, both run: neither may go on, for each would take the
other's step for its own. That is remembered until the process ends. One that is being stopped names no instance any
more: it finishes its passes while the next one may have begun. Called by `reconcile/worker.py`; nothing is written or
asked for it: who wrote is read from the resource, and when from its `managedFields`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafkafeatures.api.identity import Operator
from kafkafeatures.kube.client import Key

_TOLD = "more than one operator writes this status"


class Operators:
    """All that write. `began`: when this process first heard of the API server, by the API server's clock."""

    def __init__(self, us: Operator, began: Callable[[], datetime | None]) -> None:
        self._us, self._began = us, began
        self.writer = us
        """As a status that is written now names it."""
        self._others: dict[Key, tuple[str, frozenset[Operator]]] = {}

    def hand_over(self) -> None:
        """This process is being stopped: what it still writes is not that of a second operator."""
        self.writer = replace(self._us, instance="")

    @property
    def handed_over(self) -> bool:
        """Whether the next process may have begun."""
        return not self.writer.instance

    def beside_us(self, resource: Mapping[str, Any]) -> frozenset[Operator]:
        """The others that write this resource while we do."""
        key, uid = Key.of(resource), resource["metadata"]["uid"]
        life, known = self._others.get(key, (uid, frozenset()))
        others: frozenset[Operator] = known if life == uid else frozenset()
        writer = Operator.of(resource)
        if writer is not None and writer.instance != self._us.instance and self._is_new(resource, writer):
            others |= {writer}
        if others:
            self._others[key] = uid, others
        return others

    def told(self, others: frozenset[Operator]) -> str:
        """For the status."""
        names = ", ".join(sorted(str(one) for one in (self._us, *others)))
        return (
            f"{_TOLD}: {names}; nothing is sent to Kafka until only one is left: "
            "stop the others, then restart the one that stays"
        )

    def is_told(self, stalled: Mapping[str, Any], generation: int) -> bool:
        """Whether any of them has said so of this generation: nobody says it after another one, or they would fight."""
        return stalled.get("observedGeneration") == generation and str(stalled.get("message")).startswith(_TOLD)

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._others.pop(key, None)

    def _is_new(self, resource: Mapping[str, Any], writer: Operator) -> bool:
        began = self._began()
        return began is not None and any(
            datetime.fromisoformat(entry["time"]) > began
            for entry in resource["metadata"].get("managedFields") or ()
            if entry.get("manager") == writer.manager and entry.get("subresource") == "status" and "time" in entry
        )
