"""Settings of the operator's process: what it watches, its limits, where it listens; nothing about single resources.

Made by `cli/kube/run.py` from flags and their environment variables; read by `app.py`.
"""

from __future__ import annotations

from msgspec import Struct, field

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.kafka.base.memory_budget import MIB
from kafkafeatures.kafka.partitions.images import MAX_PARTITION_IMAGES
from kafkafeatures.kafka.recorder.recordings import RecorderSettings
from kafkafeatures.kafka.wire.addresses import Network
from kafkafeatures.notify.settings import NotifySettings


class OperatorSettings(Struct, frozen=True):
    """Settings of the operator. Times are in seconds.

    namespaces: namespaces to watch; empty: all.
    request_namespaces: namespaces in which another operator is asked to restart pods; requests that are left on pods
        there, such as those of a resource that was deleted while no operator ran, are withdrawn.
    listen_host, listen_port: address for probes and metrics; empty: all addresses, IPv4 and IPv6, as probes and
        scrapes come from outside the pod.
    at_once: reconciliations that run at the same time.
    deadline: limit of one reconciliation.
    grace: time for reconciliations in progress to end once the process is stopped.
    resync: interval of lists of a namespace that is watched.
    operator: identity of this process.
    allowed: if any, no other addresses are connected to.
    denied: addresses that are not connected to, besides those that never are.
    memory_per_cluster, memory_all_clusters: bytes that data from Kafka may take; everything else needs some 200 MiB
        for a thousand resources.
    max_partition_images: clusters whose partitions are in memory at once, because their nodes are restarted.
    recorder: where metadata logs are recorded; None: nowhere.
    notify: how people are notified; None: not at all.
    """

    namespaces: tuple[str, ...] = ()
    request_namespaces: tuple[str, ...] = ()
    listen_host: str = ""
    listen_port: int = 8080
    at_once: int = 32
    deadline: float = 120.0
    grace: float = 25.0
    resync: float = 600.0
    operator: OperatorIdentity = field(default_factory=lambda: OperatorIdentity("", "kafka-features-operator", "one"))
    allowed: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()
    memory_per_cluster: int = 64 * MIB
    memory_all_clusters: int = 256 * MIB
    max_partition_images: int = MAX_PARTITION_IMAGES
    recorder: RecorderSettings | None = None
    notify: NotifySettings | None = None
