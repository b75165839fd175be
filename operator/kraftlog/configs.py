"""All configs in a metadata log, and SCRAM credentials as digests (`Section.CONFIGS`), to be compared with ZooKeeper.

`ConfigState` is the mutable state that `rules` write to, `Configs` an immutable view of it. Values that may be secret
are kept as digests only (`digests`), which can be compared within one process. The state counts its memory ("weight"),
as `state` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from kraftlog.digests import Digest, digest_of
from kraftlog.errors import ContradictionError
from kraftlog.maps import VersionedMap
from kraftlog.partition_records import TOPIC_RESOURCE
from kraftlog.redaction import is_shown

Data = Mapping[str, Any]
Config = tuple[int, str, str]
"""(type of the resource by `ConfigResource.Type`, its name, name of the config)."""

_SECRETS = ("salt", "storedKey", "serverKey", "saltedPassword")
"""Secret fields of a credential; each layout of the record has some of them."""

# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_CONFIG, _TOPIC, _CREDENTIAL = 500, 300, 500


@dataclass(frozen=True, slots=True)
class Credential:
    """The comparable part of a SCRAM credential: the digest is of its salt and keys."""

    iterations: int
    digest: Digest


@dataclass(frozen=True, slots=True)
class Configs:
    """values: by config, the value, or a digest if it may be secret (`redaction.is_shown`). credentials: by user and
    mechanism; 1 is SCRAM-SHA-256, 2 is SHA-512.
    """

    values: Mapping[Config, str | Digest]
    credentials: Mapping[tuple[str, int], Credential]


class ConfigState:
    """Mutable state of configs. topics: names by id, kept only without the section of partitions, which has them as
    well.
    """

    __slots__ = ("_of_topics", "credentials", "topics", "values")

    def __init__(self) -> None:
        self.values: VersionedMap[Config, str | Digest] = VersionedMap(_weight_of_config)
        self.credentials: VersionedMap[tuple[str, int], Credential] = VersionedMap(
            lambda key, _: _CREDENTIAL + getsizeof(key[0])
        )
        self.topics: VersionedMap[bytes, str] = VersionedMap(lambda _, name: _TOPIC + getsizeof(name))
        self._of_topics: dict[str, set[str]] = {}  # by topic: names of its configs, which are removed with it

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        return self.values.weight + self.credentials.weight + self.topics.weight

    def view(self) -> Configs:
        """An immutable view of the current state; later changes have no effect on it."""
        return Configs(self.values.view(), self.credentials.view())

    def topic(self, data: Data) -> None:
        """Apply TOPIC_RECORD."""
        self.topics.put(data["topicId"].bytes, data["name"])

    def drop_topic(self, data: Data) -> str:
        """Apply REMOVE_TOPIC_RECORD if the section of partitions is not kept. Returns the name of the topic. Raises
        ContradictionError for an unknown topic.
        """
        name = self.topics.get(data["topicId"].bytes)
        if name is None:
            raise ContradictionError("a topic that is not there")
        self.topics.drop(data["topicId"].bytes)
        return name

    def remove_topic(self, name: str) -> None:
        """Remove the configs of a topic."""
        for config in self._of_topics.pop(name, ()):
            self.values.drop((TOPIC_RESOURCE, name, config))

    def config(self, data: Data) -> None:
        """Apply CONFIG_RECORD."""
        type_, name, config, value = data["resourceType"], data["resourceName"], data["name"], data["value"]
        if value is None:
            self.values.drop((type_, name, config))
            if type_ == TOPIC_RESOURCE:
                self._of_topics.get(name, set()).discard(config)
            return
        self.values.put((type_, name, config), value if is_shown(type_, config) else digest_of(value))
        if type_ == TOPIC_RESOURCE:
            self._of_topics.setdefault(name, set()).add(config)

    def scram(self, data: Data) -> None:
        """Apply USER_SCRAM_CREDENTIAL_RECORD, also in the layout of Kafka 3.0 to 3.4, which has several."""
        for credential in data.get("credentialInfos", (data,)):
            digest = digest_of(*(credential[field] for field in _SECRETS if field in credential))
            self.credentials.put((data["name"], credential["mechanism"]), Credential(credential["iterations"], digest))

    def remove_scram(self, data: Data) -> None:
        """Apply REMOVE_USER_SCRAM_CREDENTIAL_RECORD."""
        self.credentials.drop((data["name"], data["mechanism"]))


def _weight_of_config(key: Config, value: str | Digest) -> int:
    _, name, config = key
    return _CONFIG + getsizeof(name) + getsizeof(config) + (getsizeof(value) if isinstance(value, str) else 0)
