"""Preflight: may these levels be finalized now, and what prevents it?

An ordered chain of small pure checks; `blockers` runs all of them, so that people see everything at once. Called by
`core/engine/decide.py` in every reconciliation. A check that cannot tell says so with a blocker: silence never allows a
step.

What Kafka itself checks is in `FeatureControlManager.java`; it counts every registered node, live or not, and from
metadata.version 15 (3.7-IV0) the controllers too. We also look where Kafka does not: controllers below that level,
and voters that never registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_and_address, title_of, verb
from kafkafeatures.core.engine.remedies import ANY_CLUSTER, ghost_remedy
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import (
    NOT_SUPPORTED,
    Known,
    MetadataMode,
    Node,
    NodeState,
    Observation,
    Unknown,
)
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import (
    KAFKAS_FEATURES,
    format_level,
)
from kafkafeatures.core.levels.readiness import (
    can_make_the_quorum_dynamic,
    controllers_are_registered,
    floor_above,
    unmet_dependencies,
    unregistered_voters,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature

IN_ZOOKEEPER_MODE = Blocker(
    BlockerKind.ZOOKEEPER_MODE,
    "the cluster runs in ZooKeeper mode; features can be finalized only in KRaft mode",
    "migrate the cluster to KRaft first",
)
"""No client can finalize a feature there: brokers run with empty features (`KafkaServer.scala`)."""


class Question(Struct, frozen=True):
    """The changes that are wanted, seen against the cluster. `verdict`: the server's own, None while not asked.

    `consents`: those given, `spent`: those of them that were used already. `unknown_features`: desired
    ones that no node knows. `cluster_flags`: how our own commands reach the cluster.
    """

    observation: Observation
    changes: tuple[UpdateFeature, ...]
    verdict: DryRun | None = None
    consents: frozenset[str] = frozenset()
    spent: frozenset[str] = frozenset()
    unknown_features: tuple[tuple[str, int], ...] = ()
    cluster_flags: str = ANY_CLUSTER


def unknown_features_in(desired: Mapping[str, int], observation: Observation) -> tuple[tuple[str, int], ...]:
    """Desired features that no node knows, with their levels. Level 0 of one that Kafka does have is not among them."""
    known = observation.feature_names()
    return tuple((f, v) for f, v in desired.items() if known and f not in known and (v or f not in KAFKAS_FEATURES))


def blockers(question: Question) -> tuple[Blocker, ...]:
    """All blockers of the changes, in the order of the chain; empty: they may be sent."""
    if question.observation.in_zookeeper_mode:
        return (IN_ZOOKEEPER_MODE,)  # no check means anything there
    return tuple(found for check in CHAIN for found in check(question))


def migration_is_open(question: Question) -> Iterator[Blocker]:
    """Send nothing while a migration is open: a kept UpdateFeatures may be applied after it took another turn."""
    mode = question.observation.mode
    if isinstance(mode, Unknown):
        text = f"the metadata mode is not known: {mode.why}"
        yield Blocker(BlockerKind.MIGRATION, text, mode.why.remedy, why=mode.why.kind)
    elif mode.value is MetadataMode.MIGRATING:
        yield Blocker(
            BlockerKind.MIGRATION,
            "a migration from ZooKeeper is in progress; no level is changed until it is finalized or rolled back",
            "finalize the migration or roll it back",
        )


def quorum_is_known(question: Question) -> Iterator[Blocker]:
    """Without an active controller nothing can be decided, and a sent request may be kept and applied later."""
    why = question.observation.no_quorum
    if why is not None:
        remedy = why.remedy or "restore a majority of the controllers"
        text = f"no active controller is known: {replace(why, remedy='')}"
        yield Blocker(BlockerKind.QUORUM, text, remedy, why=why.kind)
    finalized = question.observation.finalized
    if isinstance(finalized, Unknown):
        text = f"the finalized levels are not known: {finalized.why}"
        yield Blocker(BlockerKind.QUORUM, text, finalized.why.remedy, why=finalized.why.kind)


def kraft_version_can_be_raised(question: Question) -> Iterator[Blocker]:
    """0 -> 1 makes a static quorum dynamic, which is irreversible, and only Kafka 4.1 and newer really do it."""
    for change in question.changes:
        if change.feature != KRAFT_VERSION:
            continue
        if change.after < change.before:
            yield _refused_downgrade(change, "kraft.version cannot be downgraded")
            continue
        yield from _registrations_are_known(change, question.observation)
        for node in question.observation.nodes:
            if Role.CONTROLLER not in node.roles:
                continue
            found = node.range_of(METADATA_VERSION)
            if isinstance(found, Unknown):
                if isinstance(node.range_of(KRAFT_VERSION), Known):  # else `every_node_supports_it` speaks of it
                    yield _unknown(node, change, found, METADATA_VERSION)
            elif not can_make_the_quorum_dynamic(found.value):
                yield about_nodes(
                    BlockerKind.NODE_RANGE,
                    (node,),
                    _before_kraft_version,
                    feature=change.feature,
                    wanted=change.after,
                    supported=found.value,
                )


def _registrations_are_known(change: UpdateFeature, observation: Observation) -> Iterator[Blocker]:
    """No dry run vouches for a node that is not listed: the server is not asked about this one beforehand."""
    for role, found in (
        ("brokers", observation.registered_brokers),
        ("controllers", observation.registered_controllers),
    ):
        if isinstance(found, Unknown):
            yield Blocker(
                BlockerKind.NODE_UNKNOWN,
                f"the registered {role} could not be read: {found.why.message}",
                found.why.remedy or "grant access to the metadata log",
                feature=change.feature,
                wanted=change.after,
                why=found.why.kind,
            )


def what_is_lost_has_a_consent(question: Question) -> Iterator[Blocker]:
    """A level below the finalized one is refused loudly: a reverted document must never downgrade a cluster.

    A consent names exactly one change and can be used once, so that one left in Git never authorises a later revert.
    """
    for change in question.changes:
        consent = change.consent
        if not consent or (consent in question.consents and consent not in question.spent):
            continue
        if change.is_downgrade and (change.feature == KRAFT_VERSION or _floor_above(change) is not None):
            continue  # no consent would help: `kraft_version_can_be_raised`, or the floor below, speaks of it
        what = (
            f"{change.feature} is finalized at {format_level(change.feature, change.before)}; "
            f"{format_level(change.feature, change.after)} is a downgrade"
            if change.is_downgrade
            else f"{change} makes the quorum dynamic, which is irreversible"
        )
        if consent in question.consents:
            yield Blocker(
                BlockerKind.CONSENT,
                f"{what}, and the consent {consent!r} was already used",
                f"a consent can be used once: remove {_with_its_level(change, consent)} from the document, apply it, "
                "then add it again",
                feature=change.feature,
                wanted=change.after,
                reason=Reason.CONSENT_SPENT,
            )
        else:
            yield Blocker(
                BlockerKind.DOWNGRADE if change.is_downgrade else BlockerKind.CONSENT,
                what,
                f"if this is intended, add {consent!r} to spec.consents",
                feature=change.feature,
                wanted=change.after,
                reason=Reason.CONSENT_REQUIRED,
            )


def _with_its_level(change: UpdateFeature, consent: str) -> str:
    """A document that raises kraft.version without the consent is not valid, so both have to go."""
    return f"{consent!r} and kraft.version" if change.feature == KRAFT_VERSION else repr(consent)


def metadata_version_stays_above_its_floor(question: Question) -> Iterator[Blocker]:
    """Kafka refuses to go below a level that changed metadata; no release has the lossy way (KAFKA-13896)."""
    for change in question.changes:
        floor = _floor_above(change)
        if floor is not None:
            yield _refused_downgrade(
                change,
                f"metadata.version {format_level(change.feature, change.before)} can be downgraded to "
                f"{format_level(change.feature, floor)}, not to {change.after}: metadata would be lost",
            )


def _floor_above(change: UpdateFeature) -> int | None:
    return floor_above(change.feature, change.before, change.after)


def _refused_downgrade(change: UpdateFeature, message: str) -> Blocker:
    return Blocker(
        BlockerKind.DOWNGRADE,
        message,
        "set the level in the document to the finalized level or higher",
        feature=change.feature,
        wanted=change.after,
        reason=Reason.DOWNGRADE_REFUSED,
    )


def dependencies_are_met(question: Question) -> Iterator[Blocker]:
    """Each level has what it requires, by the levels as they will be after all changes."""
    finalized = question.observation.finalized
    if isinstance(finalized, Unknown) or not question.changes:
        return
    for one in unmet_dependencies(finalized.value, {change.feature: change.after for change in question.changes}):
        yield Blocker(
            BlockerKind.DEPENDENCY,
            str(one),
            f"set {one.needed} to {one.least} or higher in the same document",
            feature=one.moved,
            wanted=one.level if one.moved == one.feature else one.found,
        )


def features_exist(question: Question) -> Iterator[Blocker]:
    """A name that no node supports is a typing error, or needs a newer Kafka."""
    from difflib import get_close_matches

    for feature, level in question.unknown_features:
        names = question.observation.feature_names()
        similar = get_close_matches(feature, {*names, *KAFKAS_FEATURES}, n=1)
        yield Blocker(
            BlockerKind.UNKNOWN_FEATURE,
            f"unknown feature {feature}: no node supports it",
            "upgrade Kafka to a release that supports it"
            if feature in KAFKAS_FEATURES
            else f"{f'did you mean {similar[0]}? ' if similar else ''}features of this cluster: {', '.join(names)}",
            feature=feature,
            wanted=level,
        )


def every_node_supports_it(question: Question) -> Iterator[Blocker]:
    """Every node, registered or voting, live or not, has a known range that holds the level."""
    unknown_features = {feature for feature, _ in question.unknown_features}
    for change in question.changes:
        if change.feature in unknown_features:
            continue  # said once by `features_exist`, not once per node
        impossible = _supported_nowhere(change, question.observation)
        if impossible is not None:
            yield impossible
        for node in question.observation.nodes:
            if node.surely_holds(change.feature, change.after) or node.state is NodeState.REFUSED:
                continue  # one that is refused is not registered: `no_node_is_refused` speaks of it
            if impossible is not None and node.state is not NodeState.GHOST:
                continue
            found = node.range_of(change.feature)
            if isinstance(found, Unknown):
                if change.feature == KRAFT_VERSION or not _vouched_for(node, found, question):
                    yield _unknown(node, change, found)
            elif change.after not in found.value:
                yield _out_of_range(node, change, found.value, question)


def no_node_is_refused(question: Question) -> Iterator[Blocker]:
    """A broker the controller keeps refusing is outside already; another raise would only bury it deeper."""
    if question.changes:
        for node in question.observation.nodes:
            if node.state is NodeState.REFUSED:
                yield about_nodes(BlockerKind.REFUSED_NODE, (node,), _refused)


Check = Callable[[Question], Iterable[Blocker]]

CHAIN: tuple[Check, ...] = (
    migration_is_open,
    quorum_is_known,
    what_is_lost_has_a_consent,
    metadata_version_stays_above_its_floor,
    kraft_version_can_be_raised,
    dependencies_are_met,
    features_exist,
    every_node_supports_it,  # the one Kafka checks too, though not for every controller
    no_node_is_refused,
)


def _vouched_for(node: Node, found: Unknown, question: Question) -> bool:
    """The third source, after the node and its registration: the controller checked exactly this change itself.

    It checks all registered brokers at any level, but controllers only from metadata.version 15 on, and voters that
    never registered only where they stand in `controller.quorum.voters`: so every voter must be registered.
    """
    if not isinstance(question.verdict, DryRunAccepted) or found.why.kind is FailureKind.STALE:
        return False  # where the process contradicts its registration, the controller judged the half in doubt
    if node.roles == (Role.BROKER,):
        return True
    observation = question.observation
    if not isinstance(observation.finalized, Known) or not isinstance(observation.quorum, Known):
        return False
    if not controllers_are_registered(observation.finalized.value):
        return False
    if not isinstance(observation.registered_controllers, Known):
        return False
    voters = {voter.id for voter in observation.quorum.value.voters}
    return not unregistered_voters(voters, observation.registered_controllers.value)


def _supported_nowhere(change: UpdateFeature, observation: Observation) -> Blocker | None:
    """One blocker for a level that not a single node supports; ghosts are no nodes in this."""
    gone = (NodeState.GHOST, NodeState.REFUSED)
    nodes = [node for node in observation.nodes if node.state not in gone]
    if any(node.surely_holds(change.feature, change.after) for node in nodes):
        return None  # the first one, nearly always: cheap for a thousand nodes
    found = [node.range_of(change.feature) for node in nodes]
    ranges = [one.value for one in found if isinstance(one, Known)]
    if not ranges or len(ranges) < len(found) or any(change.after in one for one in ranges):
        return None
    too_high = change.after > max(one.max for one in ranges)
    nearest = max(one.max for one in ranges) if too_high else min(one.min for one in ranges)
    return Blocker(
        BlockerKind.NODE_RANGE,
        f"no node supports {change.feature} {format_level(change.feature, change.after)}; "
        f"the {'highest' if too_high else 'lowest'} level that any node supports is "
        f"{format_level(change.feature, nearest)}",
        f"choose a level that every node supports{', or upgrade Kafka on all nodes' if too_high else ''}",
        feature=change.feature,
        wanted=change.after,
        reason=Reason.UNSUPPORTED_LEVEL,
    )


def _unknown(node: Node, change: UpdateFeature, found: Unknown, of: str = "") -> Blocker:
    """`of`: the feature whose range is not known, where it is another one than that of the change."""
    return about_nodes(
        BlockerKind.NODE_UNKNOWN,
        (node,),
        partial(_could_not_be_read, of or change.feature, found.why),
        feature=change.feature,
        wanted=change.after,
        why=found.why.kind,
        alike=(of, found.why.kind),
    )


def _out_of_range(node: Node, change: UpdateFeature, found: VersionRange, question: Question) -> Blocker:
    ghost = node.state is NodeState.GHOST
    return about_nodes(
        BlockerKind.GHOST_REGISTRATION if ghost else BlockerKind.NODE_RANGE,
        (node,),
        partial(_ghosts, change, found, question) if ghost else partial(_do_not_support, change, found),
        feature=change.feature,
        wanted=change.after,
        supported=found,
    )


# --- words, for one node and for many that are alike ---


def _could_not_be_read(feature: str, why: Failure, nodes: Nodes) -> tuple[str, str]:
    return (
        f"the supported range of {feature} on {title_of(nodes)} could not be read: "
        f"{verb(nodes, '', 'for example ')}{why.message}",
        why.remedy or "make the node reachable, or grant access to the metadata log",
    )


def _do_not_support(change: UpdateFeature, found: VersionRange, nodes: Nodes) -> tuple[str, str]:
    has = (
        f"{verb(nodes, 'does', 'do')} not support {change.feature}"
        if found == NOT_SUPPORTED
        else f"{verb(nodes, 'supports', 'support')} {change.feature} {found}"
    )
    silent = verb(nodes, " and does not answer", " and do not answer")
    return (
        f"{title_and_address(nodes)} {has}{silent if nodes[0].state is NodeState.UNREACHABLE else ''}; "
        f"{format_level(change.feature, change.after)} is required",
        f"Kafka on {these(nodes)} is too new for {change.feature} {change.after}; the lowest level it supports is "
        f"{found.min}"
        if change.after < found.min
        else f"upgrade Kafka on {these(nodes)}",
    )


def _ghosts(change: UpdateFeature, found: VersionRange, question: Question, nodes: Nodes) -> tuple[str, str]:
    controllers = Role.CONTROLLER in nodes[0].roles
    has = f"without {change.feature}" if found == NOT_SUPPORTED else f"with {change.feature} {found}"
    gone = (
        verb(nodes, " but is no longer a voter", " but are no longer voters")
        if controllers
        else f" but {verb(nodes, 'is', 'are')} fenced and {verb(nodes, 'does', 'do')} not answer"
    )
    return (
        f"{title_and_address(nodes)} {verb(nodes, 'is', 'are')} registered {has}{gone} "
        f"({verb(nodes, 'ghost registration', 'ghost registrations')}); "
        f"{format_level(change.feature, change.after)} is required",
        ghost_remedy(nodes, question.cluster_flags, question.observation.finalized),
    )


def _before_kraft_version(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'runs', 'run')} a Kafka release before 4.1, which accepts a kraft.version "
        "update but does not apply it",
        f"upgrade Kafka on {these(nodes)}",
    )


def _refused(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'keeps', 'keep')} fetching the metadata log but {verb(nodes, 'is', 'are')} "
        f"not registered: the active controller rejects {verb(nodes, 'it', 'them')}",
        f"upgrade Kafka on {these(nodes)} so that it supports the finalized levels, or stop "
        f"{verb(nodes, 'it', 'them')}; the active controller's log says why",
    )
