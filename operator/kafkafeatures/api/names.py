"""Names that users write and other software reads: one place for each."""

GROUP = "kafkafeatures.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KafkaFeatures"
PLURAL = "kafkafeatures"

APPROVE = f"{GROUP}/approve"
"""Annotation: the hash of a plan."""
ACCEPT_RESTORED_LOG = f"{GROUP}/accept-restored-log"
"""Annotation: "<cluster id>@<epoch>" of a metadata log that was restored from a backup, and may be acted upon."""
PAUSE = f"{GROUP}/pause"
"""Annotation: "true" is the same as `spec.suspend`."""
CREDENTIALS = f"{GROUP}/credentials"
"""Label with the value "true" that a Secret must carry before any of it is read for a resource."""

EVENT_FACTS = f"{GROUP}/facts"
"""Annotation of an Event: what it says as fields, in JSON."""

KAFKA_VERSION = f"{GROUP}/kafka-version"
"""Annotation of a pod template: the Kafka release that its image holds, such as "4.1"."""

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
DYNAMIC_QUORUM = "dynamic-quorum"
"""The consent to a raise of kraft.version, which makes a static quorum dynamic and is irreversible."""
SINGLE_REPLICA_TOPICS = "single-replica-topics"
"""The consent to a roll in which topics become unavailable while a broker restarts, such as those with one replica."""
QUORUM_OF_ONE = "quorum-of-one"
"""The consent to a restart of the only controller: without it the cluster has no quorum."""
ZK_FINALIZE = "zk-finalize"
"""The consent to end a migration from ZooKeeper: there is no way back from KRaft mode alone."""
ZK_ROLLBACK_LOSSY = "zk-rollback-lossy"
"""The consent to go back to ZooKeeper mode although ZooKeeper lacks something that the metadata log has."""

NAME, MAX_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", 253
"""The pattern and the length of a resource's name, as Kubernetes allows them (RFC 1123 subdomain)."""
