"""What tests need a cluster to hold: topics, rights, credentials, quotas. An independent client writes them, over the
brokers' plaintext listener, where it is ANONYMOUS, a super user: each of Kafka's own tools is a JVM that starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from tests.e2e.rig.asking import asked
from tests.e2e.rig.cluster import Cluster, Node

CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")


@contextmanager
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    servers = [f"127.0.0.1:{node.ports[cluster.internal]}" for node in cluster.brokers if node.alive]
    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        yield client
    finally:
        client.close()


def finalized(cluster: Cluster, feature: str) -> int:
    """The level as the client reads it."""
    with admin(cluster) as client:
        return int(client.describe_features()[feature]["finalized"][1])


def hold_topic(cluster: Cluster, name: str, replicas: Mapping[int, list[int]], **configs: str) -> None:
    """`replicas`: partition -> ids of brokers."""
    with admin(cluster) as client:
        client.create_topics({name: {"assignments": dict(replicas), "configs": configs}})


def hold_rights(cluster: Cluster, user: str, *operations: str, resource: ResourcePattern = CLUSTER) -> None:
    """Give a user the rights of `kafka-acls.sh --add --allow-principal User:USER --operation OPERATION ...`."""
    allowed = [
        ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, resource) for operation in operations
    ]
    with admin(cluster) as client:
        done = client.create_acls(allowed)
    assert not done["failed"], done


def drop_rights(cluster: Cluster) -> None:
    """All those on the cluster itself."""
    pattern = ResourcePatternFilter(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
    with admin(cluster) as client:
        client.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)])


def hold_credential(cluster: Cluster, user: str, password: str) -> None:
    change = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, password)
    with admin(cluster) as client:
        done = client.alter_user_scram_credentials([change])
    assert done == {user: None}


def hold_quota(broker: Node, user: str, key: str, value: float) -> None:
    set_quota(broker.ports[broker.cluster.internal], {"user": user}, key, value)


def set_quota(port: int, entity: Mapping[str, str | None], key: str, value: float | None) -> None:
    """A name None is the default; a value None removes it. The client has messages for it, and no call."""
    made = AlterClientQuotasRequest.EntryData
    entry = made(
        entity=[made.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[made.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False, version=1)
    request.with_header(correlation_id=7, client_id="rig")
    reply = asked(port, request.encode(header=True))
    (done,) = AlterClientQuotasResponse.decode(reply, version=1, header=True).entries
    assert done.error_code == 0, done


def hold_broker_default(broker: Node, key: str, value: str) -> None:
    """For all brokers, whatever their files say."""
    set_config(broker.ports[broker.cluster.internal], BROKER, "", key, value)


TOPIC, BROKER = 2, 4
"""Types of resources that have configs."""


def set_config(port: int, kind: int, name: str, key: str, value: str) -> None:
    """The client does not take the empty name that stands for all brokers."""
    made = IncrementalAlterConfigsRequest.AlterConfigsResource
    resource = made(
        resource_type=kind,
        resource_name=name,
        configs=[made.AlterableConfig(name=key, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False, version=1)
    request.with_header(correlation_id=7, client_id="rig")
    reply = asked(port, request.encode(header=True))
    (done,) = IncrementalAlterConfigsResponse.decode(reply, version=1, header=True).responses
    assert done.error_code == 0, done
