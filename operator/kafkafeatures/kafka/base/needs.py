"""Every right in Kafka that the operator uses, and what for: one list. ALTER_CONFIGS, which only a person's command
needs (`kafka/requests/request_log_level.py`), is not in it.

`check --rights` goes by it (`kafka/probe/granted.py`), and the tables of `docs/how-to/connect.md` are made of it. Which
request needs which right: `KafkaApis.scala`, `ControllerApis.scala`, `AuthHelper.scala`.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.rights import ClusterRight


class KafkaResource(StrEnum):
    """The resource that a right is on."""

    CLUSTER = "the cluster"
    TOPICS = "every topic"

    @property
    def flag(self) -> str:
        """Flags with which `kafka-acls.sh` names the resource."""
        return "--cluster" if self is KafkaResource.CLUSTER else "--topic '*'"


class Purpose(StrEnum):
    """The purpose of rights; `restarts` comes with a driver."""

    OBSERVE = "observe"
    LEVELS = "levels"
    RESTARTS = "restarts"
    UNREGISTER = "unregister"
    IBP = "ibp"
    MIGRATE = "migrate"


class Need(Struct, frozen=True):
    """A right, and the goal that it is needed for. `requests`: the requests that need it. `roles`: nodes of these roles
    check it. `without_log`: needed only if the metadata log cannot be read, or partitions are still in ZooKeeper.
    """

    goal: str
    requests: str
    right: ClusterRight
    resource: KafkaResource
    roles: tuple[Role, ...]
    purposes: frozenset[Purpose]
    without_log: bool = False


_BROKERS, _CONTROLLERS = (Role.BROKER,), (Role.CONTROLLER,)
_MOVING = frozenset((Purpose.RESTARTS, Purpose.IBP, Purpose.MIGRATE))

NEEDS = (
    Need(
        "read the quorum and the active controller", "DescribeQuorum (55)",
        ClusterRight.DESCRIBE, KafkaResource.CLUSTER, (*_BROKERS, *_CONTROLLERS), frozenset(Purpose),
    ),
    Need(
        "read the metadata log: ghost registrations, refused nodes, exact levels, partitions",
        "Fetch (1), FetchSnapshot (59)",
        ClusterRight.CLUSTER_ACTION, KafkaResource.CLUSTER, _CONTROLLERS, frozenset(Purpose) - {Purpose.IBP},
    ),
    Need(
        "raise levels, dry runs, list controllers on their own listener", "UpdateFeatures (57), DescribeCluster (60)",
        ClusterRight.ALTER, KafkaResource.CLUSTER, _CONTROLLERS, frozenset((Purpose.LEVELS, Purpose.MIGRATE)),
    ),
    Need(
        "unregister a node that no longer exists", "UnregisterBroker (64), UnregisterController (94)",
        ClusterRight.ALTER, KafkaResource.CLUSTER, _CONTROLLERS, frozenset((Purpose.UNREGISTER,)),
    ),
    Need(
        "read the settings of each node, and which node answers at an address",
        "DescribeConfigs (32) of each broker and controller",
        ClusterRight.DESCRIBE_CONFIGS, KafkaResource.CLUSTER, (*_BROKERS, *_CONTROLLERS), _MOVING | {Purpose.LEVELS},
    ),
    Need(
        "read which topics a broker hosts, before it is unregistered", "Metadata (3)",
        ClusterRight.DESCRIBE, KafkaResource.TOPICS, _BROKERS, frozenset((Purpose.UNREGISTER,)),
    ),
    Need(
        "without the log: read partitions", "DescribeTopicPartitions (75), or Metadata (3) before Kafka 3.8",
        ClusterRight.DESCRIBE, KafkaResource.TOPICS, _BROKERS, _MOVING, without_log=True,
    ),
    Need(
        "without the log: read configs of topics", "DescribeConfigs (32) of topics",
        ClusterRight.DESCRIBE_CONFIGS, KafkaResource.TOPICS, _BROKERS, _MOVING, without_log=True,
    ),
    Need(
        "without the log: read which partitions are being reassigned", "ListPartitionReassignments (46)",
        ClusterRight.DESCRIBE, KafkaResource.CLUSTER, _BROKERS, _MOVING, without_log=True,
    ),
    Need(
        "without the log: check that no topic is hidden", "DescribeLogDirs (35) of each broker",
        ClusterRight.DESCRIBE, KafkaResource.CLUSTER, _BROKERS, _MOVING, without_log=True,
    ),
)  # fmt: skip
"""Every right that KafkaFeatures uses in Kafka. ApiVersions, which says what a live node supports, needs none."""
