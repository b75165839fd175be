"""How large a status gets: below 32 KiB as it is sent, whatever nodes and people have to say.

Pure. Called by `core/report.py` with every status it makes. Texts are cut where they come in; where the whole still is
too large, what is missed least goes first, and what is not there is counted.
"""

from __future__ import annotations

import json
from typing import Any

from kafkafeatures.api.reasons import Condition
from kafkafeatures.core.conditions import MAX_MESSAGE
from kafkafeatures.core.words import cut

MAX_STATUS = 28 * 1024
"""Bytes. The rest is for what an act adds before the next status is made: an intent, a consent, an entry of history."""


def bounded(status: dict[str, Any], features: int) -> dict[str, Any]:
    """The status without what does not fit. `features`: how many there are, also those that are left out before.

    First blockers from the end, of which there is a total. Then history, the longest words first: a correction, which
    counts against the next one, has the shortest. Then features from the end, those that nobody asked for before those
    whose levels are remembered by being here; how many are missing is said with Ready.
    """
    status = {**status, **{key: list(status[key]) for key in ("blockers", "history", "features") if key in status}}
    while _too_large(status) and status.get("blockers"):
        status["blockers"].pop()
    while _too_large(status) and status.get("history"):
        status["history"].remove(max(status["history"], key=lambda entry: len(entry["result"])))
    if not status.get("history", True):
        del status["history"]  # as where there never was any: the next status must be the same
    while _too_large(status) and status.get("features"):
        unmanaged = [at for at, one in enumerate(status["features"]) if one.get("state") == "Unmanaged"]
        status["features"].pop(unmanaged[-1] if unmanaged else -1)
    shown = len(status.get("features", ()))
    if shown < features:
        status["conditions"] = [
            _counting(one, f" ({shown} of {features} features shown)") for one in status["conditions"]
        ]
    return status


def _too_large(status: dict[str, Any]) -> bool:
    return len(json.dumps(status)) > MAX_STATUS  # ASCII, as it is sent


def _counting(condition: dict[str, Any], count: str) -> dict[str, Any]:
    if condition["type"] != Condition.READY:
        return condition
    return {**condition, "message": cut(condition["message"], MAX_MESSAGE - len(count)) + count}
