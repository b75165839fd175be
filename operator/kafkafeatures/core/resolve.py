"""From a document to what the core decides on: names and bundles become numbers, references stay where they are.

Called by both stores of a resource.
"""

from __future__ import annotations

from kafkafeatures.api.document import UnknownRelease
from kafkafeatures.api.spec import ClusterSpec, KafkaFeatures
from kafkafeatures.core.releases import bundle, metadata_version_named
from kafkafeatures.core.remedies import cluster_flags
from kafkafeatures.core.wanted import ApprovalPolicy, Mode, OnDrift, Wanted


def wanted_of(
    resource: KafkaFeatures,
    *,
    uid: str = "",
    approvals: frozenset[str] = frozenset(),
    annotated: str = "",
    paused: bool = False,
) -> Wanted:
    """Resolve it. `approvals`, `annotated` (one more), `paused`: given beside the document. Raises UnknownRelease."""
    spec = resource.spec
    given = approvals | ({annotated, spec.approval.plan_hash or ""} - {""})
    return Wanted(
        levels=_levels(resource),
        bundle=_bundle(spec.features.release_version),
        consents=frozenset(spec.consents),
        mode=Mode(spec.mode),
        suspend=spec.suspend or paused,
        policy=ApprovalPolicy(spec.approval.policy),
        approvals=given,
        annotated=annotated,
        on_drift=OnDrift(spec.drift.on_drift),
        cluster_id=spec.cluster.cluster_id or "",
        cluster_flags=_flags(spec.cluster),
        uid=uid or f"{resource.metadata.namespace}/{resource.metadata.name}",
    )


def _flags(cluster: ClusterSpec) -> str:
    """A document with TLS or SASL keeps them in Secrets; a command wants them in a properties file of its user."""
    secured = cluster.tls is not None or cluster.sasl is not None
    return cluster_flags(
        cluster.bootstrap_servers or "", cluster.bootstrap_controllers or "", "client.properties" if secured else ""
    )


def _levels(resource: KafkaFeatures) -> dict[str, int]:
    levels = {}
    for index, one in enumerate(resource.spec.features.levels):
        if isinstance(one.level, int):
            levels[one.name] = one.level
            continue
        version = metadata_version_named(one.level)
        if version is None:
            message = f"unknown metadata.version {one.level!r}; use its number, or a newer version of this tool"
            raise UnknownRelease((f"spec.features.levels[{index}].level: {message}",))
        levels[one.name] = version.level
    return levels


def _bundle(release: str | None) -> dict[str, int]:
    if release is None:
        return {}
    found = bundle(release)
    if found is None:
        message = f"unknown Kafka release {release!r}; name levels instead, or use a newer version of this tool"
        raise UnknownRelease((f"spec.features.releaseVersion: {message}",))
    return found
