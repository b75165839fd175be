"""A KafkaFeatures as the API server has it, and what the commands ask of it. Pure; never asks anybody.

A condition speaks of the generation in its `observedGeneration`. What it says of an older one is shown with that, and
nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.reasons import Condition
from kafkafeatures.core.engine.plan import SHORTEST_HASH
from kafkafeatures.core.roll.restart_node import RestartNode


class KubeResource(Struct, frozen=True):
    """`raw`: the object."""

    raw: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.metadata['namespace']}/{self.metadata['name']}"

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.raw["metadata"]
        return found

    @property
    def uid(self) -> str:
        """Another one once the resource was deleted and created again."""
        return str(self.metadata["uid"])

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.raw.get("spec") or {}
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        """Of the object; empty where there is none yet."""
        found: Mapping[str, Any] = self.raw.get("status") or {}
        return found

    @property
    def generation(self) -> int:
        return int(self.metadata.get("generation", 0))

    @property
    def flags(self) -> str:
        """NAME and namespace, for a command line that is shown to people."""
        return f"{self.metadata['name']} -n {self.metadata['namespace']}"

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """All there are, of whatever generation."""
        return self.status.get("conditions") or ()

    def condition(self, kind: Condition) -> Mapping[str, Any]:
        """One, of whatever generation; empty where there is none."""
        return next((one for one in self.conditions if one["type"] == kind), {})

    def says(self, kind: Condition) -> Mapping[str, Any]:
        """The condition where it is True of the current generation, else empty."""
        found = self.condition(kind)
        return found if found.get("status") == "True" and self.is_current(found) else {}

    def is_current(self, condition: Mapping[str, Any]) -> bool:
        """Whether it speaks of the spec as it is now."""
        return condition.get("observedGeneration") == self.generation

    @property
    def plan(self) -> Mapping[str, Any]:
        """`status.plan`; empty where nothing is to be done."""
        found: Mapping[str, Any] = self.status.get("plan") or {}
        return found

    @property
    def plan_hash(self) -> str:
        """Of the plan; empty where there is none."""
        return str(self.plan.get("hash", ""))

    @property
    def is_approved(self) -> bool:
        """Whether its plan is approved as far as the resource says, also where the operator did not read that yet."""
        annotation = self.annotation(APPROVE).strip()
        given = (annotation, str((self.spec.get("approval") or {}).get("planHash") or ""))
        return bool(self.plan.get("approvedBy")) or any(self.is_hash_of_plan(one) for one in given)

    def is_hash_of_plan(self, text: str) -> bool:
        """Whether it names the plan there is, whole or from its eighth digit on."""
        return len(text) >= SHORTEST_HASH and self.plan_hash.startswith(text)

    @property
    def paused(self) -> bool:
        """By the annotation."""
        return self.annotation(PAUSE) == "true"

    @property
    def suspended_in_document(self) -> bool:
        """By `spec.suspend`, which Git has."""
        return bool(self.spec.get("suspend"))

    def annotation(self, name: str) -> str:
        """Its text; empty where it is not set."""
        return str((self.metadata.get("annotations") or {}).get(name) or "")

    def feature(self, name: str) -> Mapping[str, Any]:
        """One of `status.features`; empty for one that is not in it."""
        return next((one for one in self.status.get("features") or () if one["name"] == name), {})


def intent_text(intent: Mapping[str, Any]) -> str:
    """One of `status.intents`, also of a kind that this release does not know."""
    if intent.get("kind") == RestartNode.kind and intent.get("title"):
        title, target = intent["title"], intent.get("target")
        return f"{title} ({target})" if target != title else f"{title}"
    if "before" in intent and "after" in intent:
        return f"{intent.get('target', '?')} {intent['before']} -> {intent['after']}"
    return f"{intent.get('kind', '?')} {intent.get('target', '')}".rstrip()
