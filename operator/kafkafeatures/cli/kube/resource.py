"""A KafkaFeatures resource from the API server, with the properties that commands need. Pure; it sends no request.

The status is parsed for display (`api/shown.py`), which also accepts fields that another release or tool wrote. A
condition is about the generation in its `observedGeneration`; `true_condition` returns only conditions about the
current one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.shown import shown
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import FeatureStatus, Status, StatusCondition
from kafkafeatures.core.engine.plan import is_another_named
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.roll.drivers import driver_in_document


class KubeResource(Struct, frozen=True, dict=True):
    """A KafkaFeatures resource. `raw`: the object, as parsed JSON."""

    raw: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.metadata['namespace']}/{self.metadata['name']}"

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.raw["metadata"]
        return metadata

    @property
    def document(self) -> dict[str, Any]:
        """The object for scripts: without managedFields, as kubectl shows it."""
        return {**self.raw, "metadata": {key: value for key, value in self.metadata.items() if key != "managedFields"}}

    @property
    def without_version(self) -> dict[str, Any]:
        """The object without managedFields and resourceVersion, for comparisons."""
        metadata = {key: value for key, value in self.document["metadata"].items() if key != "resourceVersion"}
        return {**self.document, "metadata": metadata}

    @property
    def uid(self) -> str:
        """The uid, which differs if the resource was deleted and created again."""
        return str(self.metadata["uid"])

    @property
    def generation(self) -> int:
        return int(self.metadata.get("generation", 0))

    @property
    def deleted_at(self) -> str:
        """Time stamp since when it is being deleted; empty if it is not."""
        return str(self.metadata.get("deletionTimestamp") or "")

    @property
    def flags(self) -> str:
        """NAME and `-n NAMESPACE`, for command lines in messages."""
        return f"{self.metadata['name']} -n {self.metadata['namespace']}"

    def annotation(self, name: str) -> str:
        """The text of an annotation; empty where it is not set."""
        return str((self.metadata.get("annotations") or {}).get(name) or "")

    @property
    def paused(self) -> bool:
        """True if an annotation suspends the resource."""
        return self.annotation(PAUSE) == "true"

    # --- the document ---

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec as written; it may hold fields of a newer release."""
        spec: Mapping[str, Any] = self.raw.get("spec") or {}
        return spec

    @property
    def mode(self) -> str:
        """`spec.mode`, with its default."""
        return str(self.spec.get("mode", "Apply"))

    @property
    def suspended_in_document(self) -> bool:
        """True if `spec.suspend` suspends the resource."""
        return bool(self.spec.get("suspend"))

    @property
    def approved_in_document(self) -> str:
        """`spec.approval.planHash`; empty where there is none."""
        return str(self._part("approval").get("planHash") or "")

    @property
    def driver(self) -> str:
        """Name of its driver: `spec.workload.driver`, or the one for its cluster."""
        known = driver_in_document(self.spec)
        return known.name if known is not None else str(self._part("workload").get("driver"))

    def stateful_sets_of(self, roles: Iterable[str]) -> tuple[str, ...]:
        """The StatefulSets that its document names for these roles."""
        names_by_role = self._part("workload").get("statefulSet") or {}
        return tuple(dict.fromkeys(name for role in roles for name in names_by_role.get(role) or ()))

    @property
    def wants_migration(self) -> bool:
        """True if its document asks for a migration."""
        return bool(self._part("migration").get("desired", Desired.NONE) != Desired.NONE)

    @property
    def stable_for(self) -> str:
        """`spec.rollout.stableFor`, with its default."""
        return str(self._part("rollout").get("stableFor", "30s"))

    @property
    def bootstrap(self) -> tuple[str, str]:
        """Bootstrap of its cluster: "controller" or "server", and the addresses."""
        cluster = self._part("cluster")
        kind = "controller" if cluster.get("bootstrapControllers") else "server"
        return kind, str(cluster.get(f"bootstrap{kind.title()}s", "HOST:PORT"))

    def _part(self, name: str) -> Mapping[str, Any]:
        part: Mapping[str, Any] = self.spec.get(name) or {}
        return part

    # --- the status ---

    @property
    def written_status(self) -> Mapping[str, Any]:
        """The status as the API server has it, for documents."""
        status: Mapping[str, Any] = self.raw.get("status") or {}
        return status

    @cached_property
    def status(self) -> Status:
        """The status as commands show it to people."""
        return shown(Status, self.written_status)

    def true_condition(self, kind: Condition) -> StatusCondition | None:
        """The condition if it is True and about the current generation; else None."""
        condition = self.status.condition(kind)
        return (
            condition if condition is not None and condition.status == "True" and self.is_current(condition) else None
        )

    def is_current(self, condition: StatusCondition) -> bool:
        """True if a condition is about the current generation of the spec."""
        return condition.observed_generation == self.generation

    @property
    def plan_hash(self) -> str:
        """The hash of the current plan; empty where there is none."""
        return self.status.plan.hash if self.status.plan is not None else ""

    @property
    def is_approved(self) -> bool:
        """True if the current plan is approved: by the status, or by an approval of its hash that the operator has not
        read yet.
        """
        plan = self.status.plan
        if plan is None:
            return False
        approved_hashes = {self.annotation(APPROVE).strip(), self.approved_in_document} - {""}
        return bool(plan.approved_by) or (bool(approved_hashes) and not is_another_named(plan.hash, approved_hashes))

    def feature(self, name: str) -> FeatureStatus | None:
        """The entry of `status.features` with this name; None if there is none."""
        return next((feature for feature in self.status.features if feature.name == name), None)


def level_of(feature: FeatureStatus, level: int | None, absent: str) -> str:
    """A level of the feature as text; `absent` if it is None."""
    return absent if level is None else format_level(feature.name, level)


def range_of(feature: FeatureStatus, absent: str) -> str:
    """Range that all nodes support; `absent` where it is not known."""
    if feature.supported_min is None or feature.supported_max is None:
        return absent
    return f"{feature.supported_min}-{feature.supported_max}"
