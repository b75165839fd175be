"""Whether a status has the shapes that decisions rely on: people can write one too, by hand or from a backup.

Called by the homes. A file that was changed by hand is refused; on Kubernetes what cannot be understood is left out,
and so it is written anew. Only shapes are judged here: what a status claims is compared with the cluster in every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kafkafeatures.core.steps import UpdateFeature


def misshapen(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that cannot be understood."""
    return tuple(name for name, check in _CHECKS.items() if name in status and not _fits(check, status[name]))


def _fits(check: Callable[[Any], object], value: Any) -> bool:
    try:
        check(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False
    return True


def _each(check: Callable[[Any], object]) -> Callable[[Any], object]:
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


def _past(entry: Any) -> None:
    _moment(entry["at"]), _text(entry["action"]), _text(entry["result"])


def _condition(entry: Any) -> None:
    _text(entry["type"]), _text(entry["status"]), _text(entry["reason"]), _moment(entry["lastTransitionTime"])


def _feature(entry: Any) -> None:
    _text(entry["name"]), _number(entry.get("desired", 0))


def _intent(intent: Any) -> None:
    UpdateFeature.of_intent(intent)
    _text(intent["action"]), _moment(intent["at"]), _number(intent.get("offset", 0))


def _plan(plan: Any) -> None:
    _text(plan["hash"]), _moment(plan["createdAt"])
    _each(lambda step: UpdateFeature.parse(step["detail"]))(plan["steps"])


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "clusterId": _text,
    "changeCount": _number,
    "spentConsents": _each(_text),
    "history": _each(_past),
    "conditions": _each(_condition),
    "features": _each(_feature),
    "intent": _intent,
    "plan": _plan,
}
