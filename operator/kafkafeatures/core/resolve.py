"""Resolve a document into the `DesiredState`, on which all decisions rest: names of levels and releases become numbers,
durations and windows become values.

Pure. Called by both stores of resources (`reconcile/file_store.py`, `reconcile/kubernetes_store.py`), and by commands
and the pipeline, which read documents. References to Secrets are not resolved here.
"""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.document import InvalidDocument, UnknownRelease
from kafkafeatures.api.spec import (
    STRIMZI_LEVELS,
    Availability,
    ClusterSpec,
    Desired,
    KafkaFeatures,
    RolloutSpec,
    Spec,
)
from kafkafeatures.core.engine.desired_state import (
    ApprovalPolicy,
    ClientRequirements,
    DesiredState,
    EvidencePolicy,
    MaxParallel,
    Migration,
    Mode,
    OnDrift,
    Rollout,
    Window,
)
from kafkafeatures.core.engine.remedies import cluster_flags
from kafkafeatures.core.facts.releases import bundle, kafka_in_confluent, metadata_version_named
from kafkafeatures.core.roll.drivers import DRIVERS, NOBODY, PODS, STATEFUL_SET, STRIMZI, Driver, driver_named


def wanted_of(
    resource: KafkaFeatures,
    *,
    uid: str = "",
    approvals: frozenset[str] = frozenset(),
    annotated: str = "",
    paused: bool = False,
    accepted_log: str = "",
) -> DesiredState:
    """Resolve the document.

    Raises InvalidDocument, such as for a window with an invalid schedule or time zone; its subclass UnknownRelease for
    a name that this version does not know.

    approvals: hashes of approved plans from outside the document.
    annotated: hash in the annotation that approves a plan; empty for none.
    paused: an annotation suspends the resource.
    accepted_log: cluster id and leader epoch of the restored metadata log that a person has accepted, joined by "@";
        empty for none.
    """
    spec = resource.spec
    all_approvals = approvals | ({annotated, spec.approval.plan_hash or ""} - {""})
    return DesiredState(
        levels=_levels(resource),
        bundle=_bundle(spec),
        consents=frozenset(spec.consents),
        mode=Mode(spec.mode),
        suspend=spec.suspend or paused,
        policy=ApprovalPolicy(spec.approval.policy),
        approvals=all_approvals,
        annotated=annotated,
        accepted_log=accepted_log,
        on_drift=OnDrift(spec.drift.on_drift),
        cluster_id=spec.cluster.cluster_id or "",
        cluster_flags=_flags(spec.cluster),
        uid=uid or f"{resource.metadata.namespace}/{resource.metadata.name}",
        rollout=_rollout(spec),
        finalize_after=timedelta(seconds=spec.features.finalize_after_seconds),
        migration=migration_in(spec),
        ibp=_ibp(spec.inter_broker_protocol_version),
        clients=_clients(spec),
    )


def _clients(spec: Spec) -> ClientRequirements | None:
    evidence = spec.client_evidence
    if evidence is None:
        return None
    return ClientRequirements(
        spec.clients_target,
        timedelta(days=evidence.window_days),
        EvidencePolicy(evidence.policy) is EvidencePolicy.GATE,
    )


def _ibp(text: str | None) -> str:
    """The inter.broker.protocol.version; empty for none. Raises UnknownRelease for an unknown one: Kafka would not
    start with it, and it could not be compared with others.
    """
    if text is None:
        return ""
    from kafkafeatures.core.ibp.versions import version_of  # here: few documents need it, and commands start faster

    version = version_of(text)
    if version is None or not version.is_known:
        message = f"unknown inter.broker.protocol.version {text!r}; the last release that has any is Kafka 3.9"
        raise UnknownRelease((f"spec.interBrokerProtocolVersion: {message}",))
    return text


def _rollout(spec: Spec) -> Rollout:
    driver, rollout, strimzi = driver_in(spec), spec.rollout, spec.cluster.strimzi
    if driver.needs_one_at_a_time and rollout.max_parallel != 1:
        message = f"{driver.needs_one_at_a_time}, so it must be 1 with driver {driver.name}; remove it"
        raise InvalidDocument((f"spec.rollout.maxParallel: {message}",))
    if driver.by_selector and (spec.wants_migration or spec.inter_broker_protocol_version is not None):
        message = f"driver {driver.name} excludes migration and interBrokerProtocolVersion, which order restarts"
        raise InvalidDocument((f"spec.workload: {message}; use driver Manual",))
    sets = spec.workload.stateful_set if driver.reads_pods and not driver.by_selector else None
    pods = spec.workload.pods if driver.by_selector else None
    brokers = sets.brokers if sets else ()
    container = sets.container if sets else pods.container if pods else Rollout().container
    return Rollout(
        driver=driver.name,
        brokers=brokers,
        # A StatefulSet of combined nodes may be listed as both: it is kept under brokers.
        controllers=tuple(controller for controller in sets.controllers if controller not in brokers) if sets else (),
        managed_by=strimzi.name if strimzi is not None and driver.reads_pods else "",
        selector=pods.selector if pods else "",
        annotation=(pods.version_annotation or "") if pods else "",
        version=(pods.version or "") if pods else "",
        container=container,
        max_parallel=_max_parallel(rollout.max_parallel),
        availability=Availability(rollout.availability),
        stable_for=timedelta(seconds=rollout.stable_for_seconds),
        node_timeout=timedelta(seconds=rollout.node_timeout_seconds),
        windows=_windows(rollout),
    )


def migration_in(spec: Spec) -> Migration | None:
    """The migration that the document asks for; None for none. With one, ZooKeeper has to be read."""
    migration = spec.migration
    if migration is None or migration.desired == "None":
        return None
    return Migration(Desired(migration.desired), timedelta(seconds=migration.hold_dual_write_for_seconds))


def driver_in(spec: Spec) -> Driver:
    """The driver that the document names; without one Strimzi for its clusters, else None. Raises InvalidDocument for
    an unknown one, where what has its pods is not named, and for pods without a driver that is named.
    """
    workload, strimzi = spec.workload, spec.cluster.strimzi
    if workload.pods is not None and not workload.driver:  # else a level would be raised during a roll of them
        raise InvalidDocument(("spec.workload: pods needs a driver; set workload.driver to Pods",))
    name = workload.driver or (NOBODY if strimzi is None else STRIMZI).name
    driver = driver_named(name)
    if driver is None:
        *other_names, last = (repr(known_driver.name) for known_driver in DRIVERS)
        problem = f"invalid value {name!r}; expected {', '.join(other_names)} or {last}"
        raise InvalidDocument((f"spec.workload.driver: {problem}",))
    named = {STATEFUL_SET.key: workload.stateful_set, STRIMZI.key: strimzi, PODS.key: workload.pods}
    if driver.reads_pods and named[driver.key] is None:
        key = driver.key.removeprefix("spec.")
        raise InvalidDocument((f"spec.workload: driver {driver.name} needs {key}",))
    return driver


def _windows(rollout: RolloutSpec) -> tuple[Window, ...]:
    if not rollout.windows:
        return ()
    from kafkafeatures.core.engine.windows import problems  # here: few documents have windows

    windows = tuple(
        Window(window.schedule, timedelta(seconds=window.duration_seconds), window.time_zone)
        for window in rollout.windows
    )
    messages = [
        f"spec.rollout.windows[{index}].{field}: {problem}"
        for index, window in enumerate(windows)
        for field, problem in problems(window)
    ]
    if messages:
        raise InvalidDocument(tuple(messages))
    return windows


def _max_parallel(value: int | str) -> MaxParallel:
    if isinstance(value, int):
        return MaxParallel(value)
    return MaxParallel(int(value.removesuffix("%")), percent=True)


def _flags(cluster: ClusterSpec) -> str:
    """Flags for commands of a user, whose TLS and SASL are in a properties file; the document has them in Secrets. A
    cluster that has to be found is found by the document, with the rights of the user in Kubernetes.
    """
    if cluster.found_by:
        return "-f FILE"
    secured = cluster.tls is not None or cluster.sasl is not None
    return cluster_flags(
        cluster.bootstrap_servers or "", cluster.bootstrap_controllers or "", "client.properties" if secured else ""
    )


def _levels(resource: KafkaFeatures) -> dict[str, int]:
    levels = {}
    for index, feature_level in enumerate(resource.spec.features.levels):
        if isinstance(feature_level.level, int):
            levels[feature_level.name] = feature_level.level
            continue
        version = metadata_version_named(feature_level.level)
        if version is None:
            message = (
                f"unknown metadata.version {feature_level.level!r}; use its number, or a newer version of this tool"
            )
            raise UnknownRelease((f"spec.features.levels[{index}].level: {message}",))
        levels[feature_level.name] = version.level
    return levels


def _bundle(spec: Spec) -> dict[str, int]:
    """The levels of the release that the document names, without those that Strimzi manages in its clusters."""
    release = spec.features.release_version
    if release is None:
        return {}
    levels = bundle(release)
    if levels is None:
        kafka = kafka_in_confluent(release)
        remedy = f"Confluent Platform {release} is Kafka {kafka}: use {kafka!r}" if kafka else ""
        remedy = remedy or "name levels instead, or use a newer version of this tool"
        message = f"unknown Kafka release {release!r}; {remedy}"
        raise UnknownRelease((f"spec.features.releaseVersion: {message}",))
    managed = STRIMZI_LEVELS if spec.cluster.strimzi is not None else {}
    return {name: level for name, level in levels.items() if name not in managed}
