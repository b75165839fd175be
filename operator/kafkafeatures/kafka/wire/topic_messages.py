"""Messages about topics, partitions, configs and log directories, in the form that `messages.py` describes.

Apart from `messages.py` because most commands never send them. `partition_codec.py` translates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple
from uuid import UUID

from msgspec import Struct

from kafkafeatures.core.facts.readings import METADATA, Host
from kafkafeatures.kafka.wire.messages import Request

# --- Metadata (3), DescribeTopicPartitions (75) ---


class PartitionAnswer(NamedTuple):
    """A partition by a broker's metadata. `leader`: -1 if there is none, or the broker cannot name its listener.
    `replicas`, `in_sync`, `eligible` (leader replicas, KIP-966) and `offline` are broker ids; a replica is offline if
    its broker is down, or its disk failed.
    """

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()  # DescribeTopicPartitions only
    offline: tuple[int, ...] = ()


class TopicAnswer(NamedTuple):
    """A topic, or those of its partitions that are on one page. `id`: None in versions without it. `operations`:
    authorized operations as bits (`AclOperation`), None if not requested.
    """

    error_code: int
    name: str
    id: UUID | None
    partitions: tuple[PartitionAnswer, ...]
    operations: int | None = None


class MetadataRequest(Request["MetadataResponse"], frozen=True, repr_omit_defaults=True):
    """Metadata of the brokers; with `all_topics` also of every topic the user may see, and with `authorized_operations`
    what the user may do with each.
    """

    api_key: ClassVar[int] = METADATA
    all_topics: bool = False
    authorized_operations: bool = False


class MetadataResponse(Struct, frozen=True):
    """The live brokers and the topics that were asked for. `controller_id`: a random broker in KRaft mode; -1: none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Host, ...]
    topics: tuple[TopicAnswer, ...] = ()

    @property
    def replicas(self) -> Mapping[str, frozenset[int]]:
        """Topic to the ids of all brokers that a replica of it is assigned to."""
        return {
            topic.name: frozenset(id_ for partition in topic.partitions for id_ in partition.replicas)
            for topic in self.topics
        }


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"], frozen=True):
    """DescribeTopicPartitions for every topic the user may see, from `cursor` (topic, partition) on: at most `limit`
    partitions.
    """

    api_key: ClassVar[int] = 75
    cursor: tuple[str, int] | None = None
    limit: int = 2000  # more than `max.request.partition.size.limit` is not sent


class DescribeTopicPartitionsResponse(Struct, frozen=True):
    """One page of topics. `cursor`: topic and partition where the next page begins; None: there is no next page."""

    topics: tuple[TopicAnswer, ...]
    cursor: tuple[str, int] | None


# --- ListPartitionReassignments (46) ---


class Reassignment(NamedTuple):
    """The reassignment of one partition, as broker ids. `replicas`: all of them, including those in `adding` and
    `removing`.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"], frozen=True):
    """Asks for every reassignment that is running."""

    api_key: ClassVar[int] = 46
    timeout_ms: int = 10_000


class ListPartitionReassignmentsResponse(Struct, frozen=True):
    error_code: int
    error_message: str | None
    reassignments: Mapping[tuple[str, int], Reassignment]


# --- DescribeConfigs (32) ---

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET_ON_TOPIC = 1  # DescribeConfigsResponse.ConfigSource; core/facts/settings.py has those of nodes


class ConfigEntry(NamedTuple):
    """The value of one key of a resource; None: it has none, or is sensitive. `source`: where the value is set.
    `layers`: values by the source at which they are set; the one of `source` counts. Brokers only, else empty.
    """

    value: str | None
    source: int
    layers: Mapping[int, str] = MappingProxyType({})
    is_sensitive: bool = False
    is_read_only: bool = False


class ConfigAnswer(NamedTuple):
    """The answer for one resource. `entries`: by key; keys that the resource does not have are absent."""

    error_code: int
    error_message: str | None
    entries: Mapping[str, ConfigEntry]


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], frozen=True):
    """Configs `keys` of the resources `names`, all of the type `resource`. A broker or controller answers only for
    itself; its id is the name of the resource.
    """

    api_key: ClassVar[int] = 32
    resource: int = TOPIC_RESOURCE
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class DescribeConfigsResponse(Struct, frozen=True):
    configs: Mapping[str, ConfigAnswer]


# --- DescribeLogDirs (35) ---


class LogDir(NamedTuple):
    """A directory of a broker. `hosted`: topic to its partitions in it, also those on their way from another one."""

    error_code: int
    path: str
    hosted: Mapping[str, frozenset[int]]


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], frozen=True):
    """DescribeLogDirs of all topics: rights on topics hide none of them."""

    api_key: ClassVar[int] = 35


class DescribeLogDirsResponse(Struct, frozen=True):
    error_code: int
    directories: tuple[LogDir, ...]
