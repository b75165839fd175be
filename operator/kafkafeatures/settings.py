"""How one operator runs: what it watches, how much at once, where it listens. Never anything of a resource.

Made by `cli/kube/run.py` from flags and their environment variables; read by `app.py`.
"""

from __future__ import annotations

from msgspec import Struct, field

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.kafka.base.memory_budget import MIB
from kafkafeatures.kafka.partitions.images import MAX_PARTITION_IMAGES
from kafkafeatures.kafka.recorder.recordings import RecorderSettings
from kafkafeatures.kafka.wire.addresses import Network


class OperatorSettings(Struct, frozen=True):
    """`namespaces` empty: all of them. `deadline` in seconds for one reconciliation; `grace` for all at the end.

    `listen_host` empty: all addresses, IPv4 and IPv6; probes and scrapes come from outside the pod.
    `allowed`: where given, no other addresses are connected to. `denied`: besides those that never are.
    `memory_*`: bytes that what comes from Kafka may take; all else needs some 200 MiB for a thousand resources.
    `max_partition_images`: clusters whose partitions are in memory at once, because their nodes are restarted.
    `recorder`: where the metadata logs are recorded; None: nowhere.
    """

    namespaces: tuple[str, ...] = ()
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
