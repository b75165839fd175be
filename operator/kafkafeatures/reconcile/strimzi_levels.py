"""The level of metadata.version that Strimzi sets for a cluster, and its failure to set it, by the `Kafka` resource.

Called by `reconcile/strimzi.py`. Strimzi sets `spec.kafka.metadataVersion`; without that, the newest level of
`spec.kafka.version` (`KRaftVersionChangeCreator.java`). It writes no reason of Kafka's into its status.
"""

from __future__ import annotations

import msgspec

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.facts.releases import metadata_version_named
from kafkafeatures.core.words import cut, printable

LONGEST_PROBLEM = 256
"""Characters of a message of Strimzi that are used."""
_FAILED = "MetadataUpdateFailed"


class KafkaCondition(msgspec.Struct, frozen=True):
    """What is used of `status.conditions[]`."""

    reason: str = ""
    message: str = ""


def managed_level(
    name: str, metadata_version: str | None, version: str | None, conditions: list[KafkaCondition] | None
) -> ManagedLevel:
    """The level of metadata.version that Strimzi sets; of an unknown release or level it is None.

    name: of the `Kafka`. metadata_version, version: `metadataVersion` and `version` of its `spec.kafka`. conditions: of
    its status.
    """
    release = ".".join((version or "").split(".")[:2])
    target = metadata_version_named(metadata_version or release)
    failure = next((condition for condition in conditions or () if condition.reason == _FAILED), None)
    problem = "" if failure is None else cut(printable(failure.message) or _FAILED, LONGEST_PROBLEM)
    level, setting = None if target is None else target.level, f"spec.kafka.metadataVersion of Kafka {name}"
    return ManagedLevel(METADATA_VERSION, f"Strimzi (Kafka {name})", level, problem, setting)
