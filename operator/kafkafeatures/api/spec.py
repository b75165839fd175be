"""The spec of the resource as frozen types: everything that a user may write.

`api/schema.py` reads documents by these types, so annotations must be evaluated at run time: this module has no
`from __future__ import annotations`. The meaning of each field is in the schema, `crds/kafkafeatures.yaml`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, cast

from msgspec import Struct, field

from kafkafeatures.api.client_spec import ClientEvidenceSpec
from kafkafeatures.api.names import DYNAMIC_QUORUM, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.references import ClientSecretRef, LoginSecretRef, TlsSpec
from kafkafeatures.api.schema import AtMost, Text
from kafkafeatures.api.texts import (
    LEVEL_NAME,
    LONGEST,
    Bootstrap,
    Consent,
    Feature,
    MillisecondsToMinutes,
    MinutesToHours,
    Name,
    PlanHash,
    Release,
    SecondsToHours,
    SecondsToMinutes,
    seconds,
)
from kafkafeatures.api.workload_spec import WorkloadSpec

_NAMED_LEVEL = re.compile(LEVEL_NAME)
_PERCENT = re.compile(r"^([1-9]|[1-3][0-9])%$")
"""A percentage that `maxParallel` may have: from 1% to 39%."""


class SaslSpec(Struct, frozen=True, kw_only=True):
    """SASL mechanism. Its secrets are never in the document itself."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    username: Annotated[str, Text(256)] | None = None
    secret_ref: LoginSecretRef


class ListenerSpec(Struct, frozen=True, kw_only=True):
    """Security of the controllers' listener, where it differs from the brokers'."""

    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None

    def __post_init__(self) -> None:
        _refuse_unencrypted_secrets(self.tls, self.sasl)


def _refuse_unencrypted_secrets(tls: TlsSpec | None, sasl: SaslSpec | None) -> None:
    """Raise ValueError for a mechanism that sends the secret itself, without TLS. SCRAM and GSSAPI send only proofs."""
    if tls is None and sasl is not None and sasl.mechanism in ("PLAIN", "OAUTHBEARER"):
        raise ValueError(
            f"{sasl.mechanism} without TLS sends the secret in clear text; add 'tls: {{}}', or use a SCRAM mechanism"
        )


class ZooKeeperSpec(Struct, frozen=True, kw_only=True):
    """The ensemble of a cluster in ZooKeeper mode. `connect`: servers and chroot, as in the brokers'
    `zookeeper.connect`.

    A digest is allowed without TLS, as with `--zookeeper-config`: few ensembles have a port for TLS, and without a
    digest a user would have to let everybody change the znodes.
    """

    connect: Bootstrap
    tls: TlsSpec | None = None
    digest_secret_ref: LoginSecretRef | None = None


class StrimziControllersSpec(Struct, frozen=True, kw_only=True):
    """How to connect to the controllers of a cluster that Strimzi manages."""

    client_secret_ref: ClientSecretRef


class StrimziSpec(Struct, frozen=True, kw_only=True):
    """A cluster that Strimzi manages, by its `Kafka` resource in the same namespace, and a `KafkaUser` of it."""

    name: Name
    user: Name = "kafka-features"
    listener: Annotated[str, Text(25, 1)] | None = None
    controllers: StrimziControllersSpec | None = None


class ClusterSpec(Struct, frozen=True, kw_only=True):
    """Addresses of the cluster, and the security of its listeners; or the resource of Strimzi that has them."""

    strimzi: StrimziSpec | None = None
    bootstrap_servers: Bootstrap | None = None
    bootstrap_controllers: Bootstrap | None = None
    zookeeper: ZooKeeperSpec | None = None
    cluster_id: Annotated[str, Text(64)] | None = None
    request_timeout: MillisecondsToMinutes = "30s"
    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None
    controller_listener: ListenerSpec | None = None

    def __post_init__(self) -> None:
        if self.strimzi is not None:
            others = (self.zookeeper, self.tls, self.sasl, self.controller_listener)
            if self.bootstrap_servers or self.bootstrap_controllers or any(other is not None for other in others):
                excluded = "bootstrapServers, bootstrapControllers, zookeeper, tls, sasl and controllerListener"
                raise ValueError(f"strimzi excludes {excluded}")
        elif not self.bootstrap_servers and not self.bootstrap_controllers:
            raise ValueError("set bootstrapServers, bootstrapControllers, or both; or strimzi")
        if not 1.0 <= self.request_timeout_seconds <= 300.0:
            raise ValueError("requestTimeout must be between 1s and 5m, such as 30s")
        _refuse_unencrypted_secrets(self.tls, self.sasl)

    @property
    def found_by(self) -> str:
        """Field and name of the resource of another operator by which the cluster is found, such as "strimzi orders";
        empty where the document has its addresses.
        """
        return f"strimzi {self.strimzi.name}" if self.strimzi is not None else ""

    @property
    def request_timeout_seconds(self) -> float:
        return seconds(self.request_timeout)


def _level(value: object) -> int | str:
    """Check `levels[].level`: a 16-bit integer as in Kafka's protocol, or a name. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError('expected an integer from 0 to 32767, or for metadata.version a name in quotes: "4.1-IV1"')
    if isinstance(value, int) and not 0 <= value <= 32767:
        raise ValueError("expected an integer from 0 to 32767")
    return value


class LevelSpec(Struct, frozen=True, kw_only=True):
    """The exact level of one feature; 0 disables it."""

    name: Feature
    level: Annotated[int | str, _level]

    def __post_init__(self) -> None:
        if isinstance(self.level, str) and (self.name != METADATA_VERSION or not _NAMED_LEVEL.match(self.level)):
            raise ValueError(
                f"level: invalid value {self.level!r:.60}; expected an integer from 0 to 32767; only metadata.version "
                "has names, such as '4.1-IV1'"
            )


class FeaturesSpec(Struct, frozen=True, kw_only=True):
    """Desired levels. A feature that is not named is left alone; `levels` override the levels of `releaseVersion`."""

    release_version: Release | None = None
    finalize_after: SecondsToHours = "0s"
    levels: Annotated[tuple[LevelSpec, ...], AtMost(32)] = ()

    def __post_init__(self) -> None:
        if self.finalize_after_seconds > LONGEST:
            raise ValueError("finalizeAfter must be at most 8760h")
        names = [level.name for level in self.levels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"levels: duplicate feature {twice[0]}")
        if self.release_version is not None and METADATA_VERSION in names:
            raise ValueError("set metadata.version either through releaseVersion or through levels, not both")

    @property
    def finalize_after_seconds(self) -> float:
        return seconds(self.finalize_after)


class WindowSpec(Struct, frozen=True, kw_only=True):
    """A window in which changes may begin: it opens at each moment of the schedule and stays open for the duration. The
    schedule is checked by `core/engine/windows.py`.
    """

    schedule: Annotated[str, Text(64)]
    duration: MinutesToHours
    time_zone: Annotated[str, Text(64)] = "Etc/UTC"

    def __post_init__(self) -> None:
        if not 60 <= self.duration_seconds <= LONGEST:
            raise ValueError("duration must be between 1m and 8760h")

    @property
    def duration_seconds(self) -> float:
        return seconds(self.duration)


def _max_parallel(value: object) -> int | str:
    """Check `rollout.maxParallel`. Raises ValueError."""
    number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 256
    if not number and not (isinstance(value, str) and _PERCENT.match(value)):
        raise ValueError("expected a number from 1 to 256 or a percentage from 1% to 39%")
    return cast("int | str", value)


class Availability(StrEnum):
    """`spec.rollout.availability`: rule that every partition keeps while a node restarts; `core/facts/replication.py`
    defines it.
    """

    NO_UNDER_REPLICATED = "NoUnderReplicated"
    RESPECT_MIN_ISR = "RespectMinISR"


class RolloutSpec(Struct, frozen=True, kw_only=True):
    """Rules for restarts of nodes, if a driver restarts them. `windows` limit changes of levels, too."""

    max_parallel: Annotated[int | str, _max_parallel] = 1
    availability: Literal["NoUnderReplicated", "RespectMinISR"] = "NoUnderReplicated"
    stable_for: SecondsToMinutes = "30s"
    node_timeout: SecondsToHours = "15m"
    windows: Annotated[tuple[WindowSpec, ...], AtMost(8)] = ()

    def __post_init__(self) -> None:
        if self.stable_for_seconds > LONGEST:
            raise ValueError("stableFor must be at most 8760h")
        if not 1 <= self.node_timeout_seconds <= LONGEST:
            raise ValueError("nodeTimeout must be between 1s and 8760h")

    @property
    def stable_for_seconds(self) -> float:
        return seconds(self.stable_for)

    @property
    def node_timeout_seconds(self) -> float:
        return seconds(self.node_timeout)


class Desired(StrEnum):
    """`spec.migration.desired`: the phase that a migration from ZooKeeper to KRaft should reach (KIP-866)."""

    NONE = "None"
    PRE_MIGRATION = "PreMigration"
    DUAL_WRITE = "DualWrite"
    FINALIZED = "Finalized"
    ROLLED_BACK = "RolledBack"


class MigrationSpec(Struct, frozen=True, kw_only=True):
    """The migration from ZooKeeper to KRaft, one phase at a time."""

    desired: Literal["None", "PreMigration", "DualWrite", "Finalized", "RolledBack"]
    hold_dual_write_for: MinutesToHours = "24h"

    def __post_init__(self) -> None:
        if self.hold_dual_write_for_seconds > LONGEST:
            raise ValueError("holdDualWriteFor must be at most 8760h")

    @property
    def hold_dual_write_for_seconds(self) -> float:
        return seconds(self.hold_dual_write_for)


class ApprovalSpec(Struct, frozen=True, kw_only=True):
    """Which plans need approval, and the hash of the plan that is approved."""

    policy: Literal["Never", "IrreversibleOnly", "Always"] = "IrreversibleOnly"
    plan_hash: PlanHash | None = None


class DriftSpec(Struct, frozen=True, kw_only=True):
    """Reaction to a level that was changed outside KafkaFeatures, and the interval of checks of a resource in sync."""

    on_drift: Literal["Report", "Correct"] = "Report"
    check_every: SecondsToHours = "1m"

    def __post_init__(self) -> None:
        if self.check_every_seconds < LEAST_CHECK_EVERY:
            raise ValueError("checkEvery must be at least 10s, such as 1m")

    @property
    def check_every_seconds(self) -> float:
        return seconds(self.check_every)


LEAST_CHECK_EVERY = 10
"""Smallest `checkEvery` in seconds."""


STRIMZI_LEVELS: Mapping[str, str] = {
    METADATA_VERSION: "is managed by Strimzi, which would set it back; set spec.kafka.metadataVersion of the Kafka",
    KRAFT_VERSION: "must stay at 0 with Strimzi, which names static voters in the file of every node",
}
"""Why a document must not name these features for a cluster that Strimzi manages."""


class Spec(Struct, frozen=True, kw_only=True):
    """The desired state."""

    mode: Literal["Observe", "Apply"] = "Apply"
    suspend: bool = False
    consents: Annotated[tuple[Consent, ...], AtMost(16)] = ()
    cluster: ClusterSpec
    workload: WorkloadSpec = WorkloadSpec()
    features: FeaturesSpec = FeaturesSpec()
    inter_broker_protocol_version: Release | None = None
    migration: MigrationSpec | None = None
    approval: ApprovalSpec = ApprovalSpec()
    rollout: RolloutSpec = RolloutSpec()
    drift: DriftSpec = DriftSpec()
    client_evidence: ClientEvidenceSpec | None = None

    def __post_init__(self) -> None:
        if len(set(self.consents)) < len(self.consents):
            raise ValueError("consents: duplicate consent")
        if self.cluster.strimzi is not None and self.workload.stateful_set is not None:
            raise ValueError("cluster.strimzi excludes workload.statefulSet: Strimzi restarts the pods of its clusters")
        for name, is_wanted in (
            ("migration", self.wants_migration),
            ("interBrokerProtocolVersion", self.inter_broker_protocol_version is not None),
        ):
            if is_wanted and self.cluster.strimzi is not None:
                raise ValueError(f"cluster.strimzi excludes {name}: Strimzi runs no cluster with ZooKeeper")
            if is_wanted and self.cluster.zookeeper is None:
                raise ValueError(f"{name} needs cluster.zookeeper; set its connect to the brokers' zookeeper.connect")
        if self.wants_migration and self.inter_broker_protocol_version is not None:
            raise ValueError(
                "interBrokerProtocolVersion cannot be set together with a migration, during which it must not change; "
                "remove one of the two"
            )
        if self.client_evidence is not None and not self.clients_target:
            raise ValueError("clientEvidence needs a release: set its target, or features.releaseVersion")
        for level in self.features.levels:
            if self.cluster.strimzi is not None and level.name in STRIMZI_LEVELS:
                raise ValueError(f"features.levels: {level.name} {STRIMZI_LEVELS[level.name]}; remove it")
            if level.name == KRAFT_VERSION and level.level != 0 and DYNAMIC_QUORUM not in self.consents:
                raise ValueError(
                    "raising kraft.version makes the quorum dynamic, which is irreversible; "
                    f"add '{DYNAMIC_QUORUM}' to consents"
                )

    @property
    def wants_migration(self) -> bool:
        """Tell whether the document asks for a migration."""
        return self.migration is not None and Desired(self.migration.desired) is not Desired.NONE

    @property
    def clients_target(self) -> str:
        """The release that clients have to work with, such as "4.1"; empty for none."""
        if self.client_evidence is None:
            return ""
        return self.client_evidence.target or (self.features.release_version or "").partition("-")[0]

    @property
    def wants_ensemble(self) -> bool:
        """Tell whether ZooKeeper is needed: for a migration, or an inter.broker.protocol.version."""
        return self.wants_migration or self.inter_broker_protocol_version is not None


class Metadata(Struct, frozen=True, kw_only=True):
    """Names of the resource. Other metadata, such as labels and annotations, is allowed and ignored."""

    OTHERS_ALLOWED: ClassVar[bool] = True

    name: Name
    namespace: Name = "default"


class KafkaFeatures(Struct, frozen=True, kw_only=True):
    """The whole resource, without its status. `raw_spec`: its spec as it was written, to detect changes.
    `own_namespace`: the namespace that it names; empty for none, where kubectl takes that of the context.
    """

    api_version: Literal["kafkafeatures.dev/v1alpha1"]
    kind: Literal["KafkaFeatures"]
    metadata: Metadata
    spec: Spec
    raw_spec: Mapping[str, Any] = field(default_factory=dict)
    own_namespace: str = field(default_factory=str)
