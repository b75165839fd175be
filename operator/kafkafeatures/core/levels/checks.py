"""Preflight checks of levels: everything that prevents the desired levels from being finalized now.

Pure. An ordered chain of small checks; `blockers` runs all of them, so that people see every blocker at once. A check
that lacks a reading yields a blocker: missing knowledge never allows a step.

Kafka's own checks are in `FeatureControlManager.java`: they cover every registered node, live or not, and from
metadata.version 15 (3.7-IV0) on the controllers too. The checks here also cover the nodes that Kafka leaves out:
controllers below that level, and voters that never registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_of, verb
from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.engine.remedies import refused_texts
from kafkafeatures.core.facts.observation import (
    Known,
    MetadataMode,
    NodeState,
    Observation,
    Unknown,
)
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import (
    KAFKAS_FEATURES,
    format_level,
    level_name,
)
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.dynamic_quorum import addresses_of_voters_are_known, files_do_not_keep_voters
from kafkafeatures.core.levels.floor import floor_of_target
from kafkafeatures.core.levels.min_insync import min_insync_replicas_stay
from kafkafeatures.core.levels.node_ranges import every_node_supports_it, unknown_range
from kafkafeatures.core.levels.readiness import (
    UnmetRequirement,
    can_make_the_quorum_dynamic,
    floor_above,
    unmet_dependencies,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature

IN_ZOOKEEPER_MODE = Blocker(
    BlockerKind.ZOOKEEPER_MODE,
    "the cluster runs in ZooKeeper mode; features can be finalized only in KRaft mode",
    "migrate the cluster to KRaft first",
)
"""The blocker in ZooKeeper mode, where no client can finalize a feature: brokers run with empty features
(`KafkaServer.scala`).
"""


def blockers(inputs: LevelCheckInput) -> tuple[Blocker, ...]:
    """All blockers of the changes, in the order of the chain; empty if the changes may be sent."""
    if inputs.observation.in_zookeeper_mode:
        return (IN_ZOOKEEPER_MODE,)  # no other check has anything to say without a metadata log
    too_low = floor_of_target(inputs)
    if too_low is not None:  # the checks of `UPGRADES` would advise every node to upgrade Kafka, which is wrong then
        return (too_low, *(blocker for check in CHAIN if check not in UPGRADES for blocker in check(inputs)))
    return tuple(blocker for check in CHAIN for blocker in check(inputs))


def migration_is_open(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Prevent changes while a migration is open: the controller may apply a delayed UpdateFeatures after the migration
    was rolled back.
    """
    mode = inputs.observation.mode
    if isinstance(mode, Unknown):
        text = f"the metadata mode is not known: {mode.failure}"
        yield Blocker(BlockerKind.MIGRATION, text, mode.failure.action, failure_kind=mode.failure.kind)
    elif mode.value is MetadataMode.MIGRATING:
        yield Blocker(
            BlockerKind.MIGRATION,
            "a migration from ZooKeeper is in progress; no level is changed until it is finalized or rolled back",
            "finalize the migration or roll it back",
        )


def quorum_is_known(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require an active controller: without one nothing can be decided, and a request may be kept and applied later."""
    failure = inputs.observation.no_quorum
    if failure is not None:
        remedy = (
            failure.action
            if failure.kind.is_of_the_asker
            else failure.remedy or "restore a majority of the controllers"
        )
        unknown = (
            "the active controller is unknown" if failure.kind.is_of_the_asker else "no active controller is known"
        )
        text = f"{unknown}: {replace(failure, remedy='')}"
        yield Blocker(BlockerKind.QUORUM, text, remedy, failure_kind=failure.kind)
    finalized = inputs.observation.finalized
    if isinstance(finalized, Unknown):
        text = f"the finalized levels are not known: {finalized.failure}"
        yield Blocker(BlockerKind.QUORUM, text, finalized.failure.action, failure_kind=finalized.failure.kind)


def kraft_version_can_be_raised(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require controllers of Kafka 4.1 or newer for kraft.version 0 -> 1: older ones accept the raise and ignore it.
    The raise makes a static quorum dynamic, which is irreversible.
    """
    for change in inputs.changes:
        if change.feature != KRAFT_VERSION:
            continue
        if change.to_level < change.from_level:
            yield _refused_downgrade(change, "kraft.version cannot be downgraded", change.from_level)
            continue
        yield from _registrations_are_known(change, inputs.observation)
        for node in inputs.observation.nodes:
            if Role.CONTROLLER not in node.roles:
                continue
            supported = node.range_of(METADATA_VERSION)
            if isinstance(supported, Unknown):
                if isinstance(node.range_of(KRAFT_VERSION), Known):  # else `every_node_supports_it` reports it
                    yield unknown_range(node, change, supported, inputs, METADATA_VERSION)
            elif not can_make_the_quorum_dynamic(supported.value):
                yield about_nodes(
                    BlockerKind.NODE_RANGE,
                    (node,),
                    _before_kraft_version,
                    feature=change.feature,
                    required_level=change.to_level,
                )


def _registrations_are_known(change: UpdateFeature, observation: Observation) -> Iterator[Blocker]:
    """Require both lists of registrations: no dry run covers kraft.version, so an unlisted node would be overlooked."""
    for role, registered in (
        ("brokers", observation.registered_brokers),
        ("controllers", observation.registered_controllers),
    ):
        if isinstance(registered, Unknown):
            yield Blocker(
                BlockerKind.NODE_UNKNOWN,
                f"the registered {role} could not be read: {registered.failure.message}",
                registered.failure.remedy or "grant access to the metadata log",
                feature=change.feature,
                required_level=change.to_level,
                failure_kind=registered.failure.kind,
            )


def what_is_lost_has_a_consent(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require a consent for a downgrade and for a dynamic quorum: a reverted document must never downgrade a cluster.

    A consent names exactly one change and can be used once, so a consent left in Git never authorises a later revert.
    """
    for change in inputs.changes:
        consent = change.consent
        state = state_of(consent, inputs.consents, inputs.spent)
        if not consent or state is ConsentState.GIVEN:
            continue
        if change.is_downgrade and (change.feature == KRAFT_VERSION or _floor_above(change) is not None):
            continue  # no consent would help; `kraft_version_can_be_raised` or the check below reports it
        description = (
            f"{change.feature} is finalized at {format_level(change.feature, change.from_level)}; "
            f"{format_level(change.feature, change.to_level)} is a downgrade"
            if change.is_downgrade
            else f"{change} makes the quorum dynamic, which is irreversible"
        )
        if state is ConsentState.SPENT:
            yield Blocker(
                BlockerKind.CONSENT,
                f"{description}, and the consent {consent!r} was already used",
                f"a consent can be used once: remove {_with_its_level(change, consent)} from the document, apply it, "
                "then add it again",
                feature=change.feature,
                required_level=change.to_level,
                reason=Reason.CONSENT_SPENT,
            )
        else:
            yield Blocker(
                BlockerKind.DOWNGRADE if change.is_downgrade else BlockerKind.CONSENT,
                description,
                f"if this is intended, add {consent!r} to spec.consents",
                feature=change.feature,
                required_level=change.to_level,
                reason=Reason.CONSENT_REQUIRED,
            )


def _with_its_level(change: UpdateFeature, consent: str) -> str:
    """Part of the document to be removed: also kraft.version, whose raise is invalid without its consent."""
    return f"{consent!r} and kraft.version" if change.feature == KRAFT_VERSION else repr(consent)


def metadata_version_stays_above_its_floor(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Refuse a metadata.version below the last level that changed metadata: no release can do that (KAFKA-13896)."""
    for change in inputs.changes:
        floor = _floor_above(change)
        if floor is not None:
            yield _refused_downgrade(
                change,
                f"metadata.version {format_level(change.feature, change.from_level)} can be downgraded to "
                f"{format_level(change.feature, floor)}, not to {change.to_level}: metadata would be lost",
                floor,
            )


def _floor_above(change: UpdateFeature) -> int | None:
    return floor_above(change.feature, change.from_level, change.to_level)


def _refused_downgrade(change: UpdateFeature, message: str, lowest: int) -> Blocker:
    return Blocker(
        BlockerKind.DOWNGRADE,
        message,
        f"set {change.feature} to {format_level(change.feature, lowest)} or higher",
        feature=change.feature,
        required_level=change.to_level,
        reason=Reason.DOWNGRADE_REFUSED,
    )


def dependencies_are_met(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require the levels on which each level depends, by the levels after all changes."""
    finalized = inputs.observation.finalized
    if isinstance(finalized, Unknown) or not inputs.changes:
        return
    for unmet_dependency in unmet_dependencies(
        finalized.value, {change.feature: change.to_level for change in inputs.changes}
    ):
        yield Blocker(
            BlockerKind.DEPENDENCY,
            str(unmet_dependency),
            remedy_of_unmet(unmet_dependency, inputs.observation),
            feature=unmet_dependency.moved,
            required_level=unmet_dependency.level
            if unmet_dependency.moved == unmet_dependency.feature
            else unmet_dependency.actual,
        )


def remedy_of_unmet(unmet: UnmetRequirement, observation: Observation) -> str:
    """Where to raise the level that is needed: in the document, unless another operator manages it."""
    for managed in observation.managed:
        if managed.feature != unmet.needed or not managed.setting:
            continue
        if managed.level is None or managed.level < unmet.least:
            return f"set {managed.setting} to {level_name(unmet.needed, unmet.least) or unmet.least} or higher"
        why_not = f", which failed: {managed.problem}" if managed.problem else ""
        return f"wait until {managed.manager} sets it to {format_level(unmet.needed, managed.level)}{why_not}"
    return f"set {unmet.needed} to {unmet.least} or higher in the same document"


def features_exist(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Report desired features that no node supports: a typing error, or a newer Kafka is needed."""
    from difflib import get_close_matches

    for feature, level in inputs.unknown_features:
        names = inputs.observation.feature_names()
        similar = get_close_matches(feature, {*names, *KAFKAS_FEATURES}, n=1)
        yield Blocker(
            BlockerKind.UNKNOWN_FEATURE,
            f"unknown feature {feature}: no node supports it",
            "upgrade Kafka to a release that supports it"
            if feature in KAFKAS_FEATURES
            else f"{f'did you mean {similar[0]}? ' if similar else ''}features of this cluster: {', '.join(names)}",
            feature=feature,
            required_level=level,
        )


def no_node_is_refused(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Prevent changes while the active controller refuses a broker: with a higher level, the broker would have even
    less chance to register.
    """
    if inputs.changes:
        for node in inputs.observation.nodes:
            if node.state is NodeState.REFUSED:
                mode = node.runs_in_kraft_mode
                words = partial(refused_texts, finalized=inputs.observation.finalized)
                yield about_nodes(BlockerKind.REFUSED_NODE, (node,), words, alike=mode)


Check = Callable[[LevelCheckInput], Iterable[Blocker]]
"""A check: function that yields the blockers it finds."""

CHAIN: tuple[Check, ...] = (
    migration_is_open,
    quorum_is_known,
    what_is_lost_has_a_consent,
    metadata_version_stays_above_its_floor,
    kraft_version_can_be_raised,
    dependencies_are_met,
    features_exist,
    every_node_supports_it,  # Kafka checks this too, though not for every controller
    no_node_is_refused,
    min_insync_replicas_stay,
    addresses_of_voters_are_known,
    files_do_not_keep_voters,
)
UPGRADES: tuple[Check, ...] = (features_exist, every_node_supports_it)
"""Checks whose remedy is an upgrade of Kafka."""


def _before_kraft_version(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'runs', 'run')} a Kafka release before 4.1, which accepts a kraft.version "
        "update but does not apply it",
        f"upgrade Kafka on {these(nodes)}",
    )
