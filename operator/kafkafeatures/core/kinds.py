"""The kinds of steps there are: the one place where a new kind is registered.

Pure. Called wherever a status is read: what an intent or an entry of its history stands for is said by its kind. The
rooms of the kinds (`core/levels/`, `core/roll/`) know what all kinds share (`core/engine/`), and none of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from kafkafeatures.api.status import HistoryEntry, Intent, Status
from kafkafeatures.core.engine.steps import InFlight, Step, UnknownStep
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.restart_node import RestartNode

KnownStep = UpdateFeature | RestartNode

KINDS: Mapping[str, type[Step]] = {one.kind: one for one in get_args(KnownStep)}
"""By what an intent calls it."""
_RECORDED: Mapping[str, type[Step]] = {one.recorded_as: one for one in KINDS.values()}


def known(step: Step) -> KnownStep:
    """The step, of a type of which mypy knows all there are: for the one place that carries them out."""
    if isinstance(step, KnownStep):
        return step
    raise TypeError(f"{type(step).__name__} is not registered in core/kinds.py")


def in_flight(intent: Intent) -> InFlight | UnknownStep:
    """What an intent stands for. One of a known kind that cannot be read may be of another release, or damaged."""
    kind = KINDS.get(intent.kind)
    if kind is None:
        return UnknownStep(intent)
    try:
        return kind.read(intent)
    except ValueError:
        return UnknownStep(intent)


def sent_in(status: Status) -> tuple[InFlight, ...]:
    """Every step of a status whose outcome is open, as far as this release can read them."""
    return tuple(one for intent in status.intents if isinstance(one := in_flight(intent), InFlight))


def kind_of(ended: HistoryEntry) -> type[Step] | None:
    """The kind of step that an entry of the history is about; None where another release knows it."""
    return _RECORDED.get(ended.kind)


def follows(status: Status) -> bool:
    """Whether a step is open that is followed from look to look, also where it cannot be read."""
    return any(kind.is_followed for intent in status.intents if (kind := KINDS.get(intent.kind)) is not None)
