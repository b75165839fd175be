"""Preflight of nodes: release, id, inter-broker protocol and disks of each node allow a migration.

Pure. The table of `core/migration/preflight.py` lists the checks. Rules: `KafkaConfig.validateValues`, `KafkaServer`
and `ActivationRecordsGenerator` of Kafka 3.9. A node of this release with a wrong setting refuses to start, which
without the preflight shows only in the middle of a roll. The flag is `zookeeper.metadata.migration.enable`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, these, title_of, verb
from kafkafeatures.core.facts.early_rights import GRANT
from kafkafeatures.core.facts.observation import Node, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, WITHOUT_ZOOKEEPER, metadata_version_named
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.migration.preflight_input import PreflightInput, file_value, is_set, names_in, of_each, reported
from kafkafeatures.core.words import first_of

API_VERSIONS = 18
"""Key of the request ApiVersions."""
SINCE_3_9 = 4
"""Version of ApiVersions that came with Kafka 3.9, on brokers in ZooKeeper mode and on controllers alike. No feature
shows the release, as brokers in ZooKeeper mode report none.
"""

LOWEST, HIGHEST = 13, 21
"""metadata.version 3.6-IV1 and 3.9-IV0: below, Kafka 3.9 begins no migration (`ActivationRecordsGenerator`)."""
SEVERAL_DISKS = 17
"""metadata.version 3.7-IV2: the first level at which brokers in KRaft mode may have several log directories."""

BROKER_ID, GENERATED, RESERVED = "broker.id", "broker.id.generation.enable", "reserved.broker.max.id"
LOG_DIRS, ROLES = "log.dirs", "process.roles"


def every_node_says_who_it_is(preflight: PreflightInput) -> Iterator[Blocker]:
    """The process at the address of each node has proved its id, and reported its settings."""
    for node in preflight.nodes:
        if node.proved_at:
            continue
        silent = _NO_SETTINGS if Role.BROKER in node.roles else replace(_NO_SETTINGS, remedy=GRANT)
        failure = node.identity_failure or silent
        yield from of_each((node,), BlockerKind.NODE_UNKNOWN, _unproved, failure, failure_kind=failure.kind)


def every_setting_is_known(preflight: PreflightInput, names: frozenset[str]) -> Iterator[Blocker]:
    """Each node reported these settings, as Kafka 3.9 does for all settings that it defines, set or not."""
    for node in preflight.nodes:
        missing = names - node.settings.keys()
        if node.proved_at and missing:
            text = first_of(sorted(missing))
            yield from of_each((node,), BlockerKind.NODE_UNKNOWN, _silent, text, failure_kind=FailureKind.UNSUPPORTED)


def there_are_nodes(preflight: PreflightInput) -> Iterator[Blocker]:
    """At least one broker is known and, once there must be controllers, at least one controller."""
    if not preflight.brokers and not preflight.flying:
        yield Blocker(BlockerKind.NODE_UNKNOWN, "no broker is known", "add one to spec.cluster.bootstrapServers")
    if preflight.end is not Position.PRE_MIGRATION and not preflight.controllers and not preflight.flying:
        yield Blocker(
            BlockerKind.NODE_UNKNOWN, "no controller is known", "add one to spec.cluster.bootstrapControllers"
        )


def every_broker_was_asked(preflight: PreflightInput) -> Iterator[Blocker]:
    """Each broker that is registered in ZooKeeper is one of the nodes that were contacted."""
    if isinstance(preflight.znodes, Failure) or isinstance(preflight.znodes.brokers, Failure):
        return
    known_ids = {node.id for node in preflight.brokers} | preflight.flying
    for id_ in sorted(preflight.znodes.brokers.keys() - known_ids):
        yield Blocker(
            BlockerKind.NODE_UNKNOWN,
            f"broker {id_} is registered in ZooKeeper, but its address is not known",
            "add it to spec.cluster.bootstrapServers",
        )


def every_node_runs_kafka_3_9(preflight: PreflightInput) -> Iterator[Blocker]:
    """Each node runs Kafka 3.9: the last release with migrations, and the only one whose migration is tested here."""
    for node in preflight.nodes:
        if isinstance(node.answer, Unknown):
            continue
        answer = node.answer.value
        newest = answer.apis.get(API_VERSIONS)
        metadata = answer.supported.get(METADATA_VERSION)
        if newest is None or newest.max < SINCE_3_9:
            yield from of_each((node,), BlockerKind.NODE_RANGE, _too_old)
        elif metadata is not None and metadata.max >= WITHOUT_ZOOKEEPER:
            yield from of_each((node,), BlockerKind.NODE_RANGE, _too_new)


def no_node_is_combined(preflight: PreflightInput) -> Iterator[Blocker]:
    """No node is broker and controller in one process: KIP-866 has no migration to such nodes."""
    combined = [node for node, roles in reported(preflight.nodes, ROLES) if len(names_in(file_value(roles))) > 1]
    yield from of_each(combined, BlockerKind.SETTING, _combined)


def ids_are_apart(preflight: PreflightInput) -> Iterator[Blocker]:
    """No controller has the id of a broker, registered or with replicas."""
    used = set() if isinstance(preflight.survey, Failure) else set(preflight.survey.assigned)
    if not isinstance(preflight.znodes, Failure) and not isinstance(preflight.znodes.brokers, Failure):
        used |= preflight.znodes.brokers.keys()
    combined = {node.id for node, roles in reported(preflight.nodes, ROLES) if len(names_in(file_value(roles))) > 1}
    for node in preflight.controllers:
        if node.id not in combined and (Role.BROKER in node.roles or node.id in used):
            yield from of_each((node,), BlockerKind.SETTING, _clash)


def every_id_is_set(preflight: PreflightInput) -> Iterator[Blocker]:
    """Each broker sets its id. With the flag, a broker with a generated id does not start, nor does a broker with an id
    above reserved.broker.max.id while ids are generated.
    """
    generates = {node.id for node, setting in reported(preflight.brokers, GENERATED) if file_value(setting) == "true"}
    highest = {
        node.id: int(file_value(setting))
        for node, setting in reported(preflight.brokers, RESERVED)
        if file_value(setting).isdecimal()
    }
    for node, id_ in reported(preflight.brokers, BROKER_ID):
        # Without a limit that is known, no id counts as above it.
        above = node.id in generates and node.id > highest.get(node.id, node.id)
        if not is_set(id_) or file_value(id_) == "-1":
            yield from of_each((node,), BlockerKind.SETTING, _generated_id, above)
        elif above:
            yield from of_each((node,), BlockerKind.SETTING, _id_above)


def protocol_of(node: Node) -> int | None:
    """Level of metadata.version that is equal to the inter-broker protocol (IBP) of a broker; None if it is not known,
    or below 3.0.
    """
    level = next((metadata_version_named(file_value(setting)) for _, setting in reported((node,), IBP)), None)
    return None if level is None else level.level


def every_protocol_is_set_and_the_same(preflight: PreflightInput) -> Iterator[Blocker]:
    """All brokers set the same inter-broker protocol: a broker registers with it as its only metadata.version, and the
    quorum must have exactly that.
    """
    protocols = reported(preflight.brokers, IBP)
    levels = [level for node, _ in protocols if (level := protocol_of(node)) is not None]
    highest = max(levels, default=HIGHEST)
    for node, setting in protocols:
        level = protocol_of(node)
        if not is_set(setting):
            yield from of_each((node,), BlockerKind.SETTING, _protocol_unset, file_value(setting))
        elif level is None or not LOWEST <= level <= HIGHEST:
            yield from of_each((node,), BlockerKind.SETTING, _protocol_refused, file_value(setting))
        elif level < highest:
            words = (file_value(setting), METADATA_VERSIONS[highest].name)
            yield from of_each((node,), BlockerKind.SETTING, _protocol_differs, *words)


def several_log_dirs_are_possible(preflight: PreflightInput) -> Iterator[Blocker]:
    """No broker has several log directories below 3.7-IV2, from which on their ids are registered (KIP-858)."""
    for node, dirs in reported(preflight.brokers, LOG_DIRS):
        level = protocol_of(node)
        if len(names_in(file_value(dirs))) > 1 and level is not None and level < SEVERAL_DISKS:
            yield from of_each((node,), BlockerKind.SETTING, _several_log_dirs)


def the_quorum_has_the_protocol(preflight: PreflightInput) -> Iterator[Blocker]:
    """The finalized metadata.version is the inter-broker protocol of the brokers; otherwise no broker can register."""
    finalized = preflight.observation.finalized
    if isinstance(finalized, Unknown):
        text = f"the finalized metadata.version is not known: {finalized.failure.message}"
        yield Blocker(BlockerKind.QUORUM, text, finalized.failure.action, failure_kind=finalized.failure.kind)
        return
    level = finalized.value.get(METADATA_VERSION, 0)
    is_of_others = any(protocol_of(node) == level for node in preflight.brokers)
    yield from with_another_protocol(preflight.observation, preflight.brokers, is_of_others=is_of_others)


def with_another_protocol(observation: Observation, brokers: Nodes, *, is_of_others: bool) -> Iterator[Blocker]:
    """Blockers for brokers that cannot register, as their inter-broker protocol is not the finalized metadata.version.
    `is_of_others`: other brokers can register, so that these have to change, and not the quorum.
    """
    if isinstance(observation.finalized, Unknown):
        return
    level = observation.finalized.value.get(METADATA_VERSION, 0)
    name = METADATA_VERSIONS[level].name if level in METADATA_VERSIONS else str(level)
    for node, setting in reported(brokers, IBP):
        if protocol_of(node) != level:
            words = (file_value(setting), name, is_of_others)
            yield from of_each((node,), BlockerKind.SETTING, _other_quorum, *words)


# --- words ---

_NO_SETTINGS = Failure(
    FailureKind.NOT_ASKED, "", "it did not give its settings", "grant DESCRIBE_CONFIGS on the cluster"
)


def _unproved(failure: Failure, nodes: Nodes) -> tuple[str, str]:
    text = f"{title_of(nodes)} did not say who {verb(nodes, 'it is', 'they are')}: {failure.message}"
    return text, failure.action


def _silent(names: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} did not give {names}",
        f"check that {these(nodes)} {verb(nodes, 'runs', 'run')} Kafka 3.9",
    )


def _too_old(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'runs', 'run')} a Kafka release before 3.9; all nodes need 3.9 to migrate",
        f"upgrade Kafka on {these(nodes)} to 3.9 first, then raise inter.broker.protocol.version",
    )


def _too_new(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'runs', 'run')} Kafka 4.0 or newer, which does not support ZooKeeper",
        f"run Kafka 3.9 on {these(nodes)} until the migration is finalized",
    )


def _combined(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'is', 'are')} broker and controller in one process (process.roles)",
        "run the controllers as separate nodes: process.roles=controller",
    )


def _clash(nodes: Nodes) -> tuple[str, str]:
    return (
        f"the id of {title_of(nodes)} is also the id of a broker; no broker and controller may have the same id",
        "format the controllers with other ids, which no broker has and no replica is assigned to",
    )


def _generated_id(above: bool, nodes: Nodes) -> tuple[str, str]:
    extra_setting = f" and {GENERATED}=false, as it is above {RESERVED}" if above else ""
    return (
        f"{title_of(nodes)} {verb(nodes, 'has a generated id', 'have generated ids')}: broker.id is not set, and with "
        f"{FLAG} {verb(nodes, 'it does', 'they do')} not start",
        f"set broker.id to the id that it has{extra_setting}, and restart {these(nodes)}",
    )


def _id_above(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has an id', 'have ids')} above {RESERVED} while ids are generated, and "
        f"{verb(nodes, 'does', 'do')} not start with {FLAG}",
        f"set {GENERATED}=false on {these(nodes)}",
    )


def _protocol_unset(default: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'does', 'do')} not set {IBP}; it follows the binary, and is {default} now",
        f"set {IBP}={default.removesuffix('-IV0')} on {these(nodes)}",
    )


def _protocol_refused(current_value: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {IBP} {current_value}; "
        "a migration starts from 3.6-IV1 to 3.9-IV0",
        f"set {IBP}=3.9 once all brokers run Kafka 3.9, and restart {these(nodes)}",
    )


def _protocol_differs(current_value: str, highest: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {IBP} {current_value}, and other brokers have {highest}",
        f"set the same on all brokers: {IBP}={highest.removesuffix('-IV0')}",
    )


def _several_log_dirs(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} several log dirs, which need {IBP} 3.7-IV2 or higher",
        f"raise {IBP} to 3.9 first",
    )


def _other_quorum(current_value: str, finalized: str, is_of_others: bool, nodes: Nodes) -> tuple[str, str]:
    set_ = f"set {IBP}={finalized.removesuffix('-IV0')} on {these(nodes)}, and restart {verb(nodes, 'it', 'them')}"
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {IBP} {current_value or 'unset'}, and the controllers have "
        f"metadata.version {finalized}: {verb(nodes, 'it', 'they')} could not register",
        set_
        if is_of_others
        else "stop the controllers, delete /migration, and format them with --release-version as the brokers have it",
    )
