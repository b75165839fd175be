"""Whether a status has the shapes that decisions rely on: people can write one too, by hand or from a backup.

Called by the homes. A file that was changed by hand is refused; on Kubernetes what cannot be understood is left out,
and so it is written anew. Only shapes are judged here: what a status claims is compared with the cluster in every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kafkafeatures.core.steps import UpdateFeature

Check = Callable[[Any], object]
"""Raises one of a few errors where the value is none of its kind."""


def misshapen(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that cannot be understood."""
    return tuple(name for name, check in _CHECKS.items() if name in status and not _fits(check, status[name]))


def _fits(check: Check, value: Any) -> bool:
    try:
        check(value)
    except (TypeError, ValueError, KeyError):
        return False
    return True


def _each(check: Check) -> Check:
    def every(values: Any) -> None:
        if not isinstance(values, list):
            raise TypeError
        for value in values:
            check(value)

    return every


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return moment


def _level(value: Any) -> int:
    return int(_text(value))


def _step(value: Any) -> UpdateFeature:
    return UpdateFeature.parse(_text(value))


def _with(needed: Mapping[str, Check], **more: Check) -> Check:
    """A mapping that has all of `needed`, and `more` where it is there. What else stands in it is left alone."""

    def fields(value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeError
        for name, check in needed.items():
            check(value[name])
        for name, check in more.items():
            if name in value:
                check(value[name])

    return fields


_CONDITION = {"type": _text, "status": _text, "reason": _text, "message": _text, "lastTransitionTime": _moment}
_INTENT = {"action": _text, "target": _text, "before": _level, "after": _level, "at": _moment}
_RANGE = {"supportedMin": _number, "supportedMax": _number}

_CHECKS: Mapping[str, Check] = {
    "observedGeneration": _number,
    "operatorVersion": _text,
    "clusterId": _text,
    "source": _text,
    "metadataMode": _text,
    "metadataVersion": _text,
    "targetMetadataVersion": _text,
    "progress": _text,
    "changeCount": _number,
    "spentConsents": _each(_text),
    "history": _each(_with({"at": _moment, "action": _text, "result": _text})),
    "conditions": _each(_with(_CONDITION, observedGeneration=_number)),
    "features": _each(_with({"name": _text}, finalized=_number, desired=_number, state=_text, **_RANGE)),
    "blockers": _each(_with({"kind": _text, "message": _text}, remedy=_text)),
    "blockersTotal": _number,
    "intent": _with(_INTENT, via=_text, outcome=_text, offset=_number),
    "plan": _with(
        {"hash": _text, "createdAt": _moment, "summary": _text, "steps": _each(_with({"detail": _step}, state=_text))},
        approvedBy=_text,
    ),
}
