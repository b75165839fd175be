"""Detection of a second operator that writes the same statuses.

Called by `reconcile/controller.py`. Every write of a status names its operator, and Kubernetes notes its time in
`managedFields`, so nothing else has to be read or written.

- A write by another operator from before this process began is a hand-over: the pod was replaced.
- A later write means that both run. Then neither may continue, as each would take the other's steps for its own. This
  is remembered until the process ends.
- A process that is being stopped leaves its instance out of its writes: it finishes its reconciliations, while its
  successor may have begun.
- A process that was replaced by force (`kubectl delete pod --force`, a lost Kubernetes node) may write a little longer.
  That is waited for (`HAND_OVER`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import ON_ITS_WAY
from kafkafeatures.kube.api import ResourceKey

HAND_OVER = ON_ITS_WAY.total_seconds()
"""Seconds from the start of this process in which an earlier process of the same operator may still write; kubelet ends
such a process within a few seconds.
"""

_REPORTED = "more than one operator writes this status"


class Operators:
    """The operators that write statuses.

    us: this operator.
    began: time, by the API server's clock, at which this process first heard from it; None: not yet.
    monotonic: clock in seconds.
    writer: identity that this operator puts into its next write.
    """

    def __init__(
        self, us: OperatorIdentity, began: Callable[[], datetime | None], monotonic: Callable[[], float]
    ) -> None:
        self._us, self._began, self._monotonic = us, began, monotonic
        self._hand_over_ends_at: float | None = None
        self.writer = us
        self._rivals: dict[ResourceKey, tuple[str, frozenset[OperatorIdentity]]] = {}  # of a resource with this uid

    def hand_over(self) -> None:
        """Note that this process is being stopped: its later writes are not those of a second operator."""
        self.writer = replace(self._us, instance="")

    @property
    def handed_over(self) -> bool:
        """Tell whether the successor of this process may have begun."""
        return not self.writer.instance

    def beside_us(self, resource: Mapping[str, Any]) -> frozenset[OperatorIdentity]:
        """Other operators that write this resource while this process runs."""
        key, uid = ResourceKey.of(resource), resource["metadata"]["uid"]
        known_uid, known_rivals = self._rivals.get(key, (uid, frozenset()))
        rivals: frozenset[OperatorIdentity] = known_rivals if known_uid == uid else frozenset()
        writer = OperatorIdentity.of(resource)
        wrote = self._wrote(resource, writer) if writer and writer.instance != self._us.instance else None
        if writer is not None and wrote is not None:
            if writer.manager != self._us.manager or wrote > HAND_OVER:
                rivals |= {writer}
            elif self.hand_over_ends_in > 0:  # it may be a process that was replaced by force: not remembered
                return rivals | {writer}
        if rivals:
            self._rivals[key] = uid, rivals
        return rivals

    @property
    def hand_over_ends_in(self) -> float:
        """Seconds until an earlier process of this operator has certainly ended; `HAND_OVER` at the first call."""
        if self._hand_over_ends_at is None:
            self._hand_over_ends_at = self._monotonic() + HAND_OVER
        return max(self._hand_over_ends_at - self._monotonic(), 0.0)

    def conflict_message(self, other_operators: frozenset[OperatorIdentity]) -> str:
        """The message of a conflict for the status."""
        names = ", ".join(sorted(str(other) for other in (self._us, *other_operators)))
        return (
            f"{_REPORTED}: {names}; nothing is sent to Kafka until only one is left: "
            "stop the others, then restart the remaining one"
        )

    def is_reported(self, status: Status, generation: int) -> bool:
        """Tell whether any operator has reported the conflict for this generation. Only one reports it, or they would
        overwrite each other.
        """
        stalled = status.condition(Condition.STALLED)
        return (
            stalled is not None and stalled.reason == Reason.CONFLICT_DETECTED
            and stalled.observed_generation == generation and stalled.message.startswith(_REPORTED)
        )  # fmt: skip

    def forget(self, key: ResourceKey) -> None:
        """Discard what is known of a resource that was deleted."""
        self._rivals.pop(key, None)

    def _wrote(self, resource: Mapping[str, Any], writer: OperatorIdentity) -> float | None:
        """Seconds from this process's start to the writer's last write; None where it has not written since."""
        began = self._began()
        times = [
            (datetime.fromisoformat(entry["time"]) - began).total_seconds()
            for entry in resource["metadata"].get("managedFields") or ()
            if began and entry.get("manager") == writer.manager
            if entry.get("subresource") == "status" and "time" in entry
        ]
        return max((time for time in times if time > 0), default=None)
