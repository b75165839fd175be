"""Check that the next binary of each node supports every finalized level: otherwise the node could not register again.

Pure. One of the checks of `core/roll/checks.py`. Where the document downgrades these levels anyway, `core/roll/roll.py`
lets the downgrade go first (`levels_go_first`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import stalled_by
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Unknown
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.floor import floor_of_target, raise_first
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput


def binary_holds_levels(inputs: RestartCheckInput) -> Refusal | None:
    """No new binary lacks a finalized level. Restarts of a migration are not checked here: a broker in ZooKeeper mode
    reports no levels, and the preflight of the migration has checked which release each node runs.
    """
    if inputs.permit.is_granted:
        return None
    blockers = (*_levels_in_danger(inputs), *_below_the_floor(inputs))
    if not blockers:
        return None
    return stalled_by(*blockers)


def _levels_in_danger(inputs: RestartCheckInput) -> Iterator[Blocker]:
    """Blocker for each finalized level that the update revision of a StatefulSet does not support."""
    if not inputs.fleet.needing or isinstance(inputs.observation.finalized, Unknown):
        return
    for name, ranges in inputs.binaries.ranges.items():
        for feature, level in sorted(inputs.observation.finalized.value.items()):
            supported = ranges.get(feature, NOT_SUPPORTED)
            if level in supported or not level:
                continue
            downgrade = UpdateFeature(feature, level, supported.max)
            is_too_low = level < supported.min
            impossible = not is_too_low and UpdateFeature(feature, supported.max, level).undo is Undo.IMPOSSIBLE
            remedy = f"downgrade {feature} to {supported.max} first, with the consent {downgrade.consent}"
            if is_too_low:
                remedy = raise_first(feature, level, supported.min, inputs.observation)
            elif impossible:
                remedy = (
                    f"Kafka refuses to downgrade {feature}; use an image that supports {format_level(feature, level)}"
                )
            yield Blocker(
                BlockerKind.NODE_RANGE,
                f"the new image of {name} supports {feature} {supported}, finalized is {format_level(feature, level)}: "
                "its nodes could not register again",
                remedy,
                feature=feature,
                required_level=level,
                supported=supported,
                reason=Reason.DOWNGRADE_REFUSED if impossible else Reason.NODES_BEHIND,
            )


def _below_the_floor(inputs: RestartCheckInput) -> Iterator[Blocker]:
    """Blocker where a person restarts nodes, with a binary that is not known: it is taken to support the levels that
    the document asks for, which may have dropped a low level that is finalized now.
    """
    if inputs.driver.reads_pods or not inputs.fleet.needing:
        return
    blocker = floor_of_target(LevelCheckInput(inputs.observation, inputs.changes))
    if blocker is not None:
        yield replace(blocker, reason=Reason.NODES_BEHIND)


def levels_go_first(inputs: RestartCheckInput) -> bool:
    """Tell whether the document changes every level that the new binary does not support to one that it does."""
    target_levels = {change.feature: change.to_level for change in inputs.changes}
    blocked = tuple(_levels_in_danger(inputs))
    return bool(blocked) and all(
        blocker.supported and target_levels.get(blocker.feature) in blocker.supported for blocker in blocked
    )
