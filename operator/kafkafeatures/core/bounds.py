"""How large a status gets: below 32 KiB as it is sent, whatever nodes and people have to say.

Pure. Called by `core/report.py` with every status it makes. Texts are cut where they come in; where the whole still is
too large, what is missed least goes first, and what is not there is counted.
"""

from __future__ import annotations

import json
from dataclasses import replace

from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.status import FeatureState, FeatureStatus, Status, StatusCondition
from kafkafeatures.core.conditions import MAX_MESSAGE
from kafkafeatures.core.words import cut

MAX_STATUS = 28 * 1024
"""Bytes. The rest is for what an act adds before the next status is made: an intent, a consent, an entry of history."""


def bounded(status: Status, features: int) -> Status:
    """The status without what does not fit. `features`: how many there are, also those that are left out before.

    First blockers from the end, of which there is a total. Then history, the longest words first: a correction, which
    counts against the next one, has the shortest. Then features from the end, those that nobody asked for before those
    whose levels are remembered by being here; how many are missing is said with Ready.
    """
    while _too_large(status):
        if status.blockers:
            status = replace(status, blockers=status.blockers[:-1])
        elif status.history:
            longest = max(status.history, key=lambda entry: len(entry.message))
            status = replace(status, history=tuple(one for one in status.history if one is not longest))
        elif status.features:
            status = replace(status, features=_without_least(status.features))
        else:
            break
    if len(status.features) < features:
        count = f" ({len(status.features)} of {features} features shown)"
        status = replace(status, conditions=tuple(_counting(one, count) for one in status.conditions))
    return status


def _without_least(features: tuple[FeatureStatus, ...]) -> tuple[FeatureStatus, ...]:
    unmanaged = [at for at, one in enumerate(features) if one.state == FeatureState.UNMANAGED]
    last = unmanaged[-1] if unmanaged else len(features) - 1
    return (*features[:last], *features[last + 1 :])


def _too_large(status: Status) -> bool:
    return len(json.dumps(status.as_json())) > MAX_STATUS  # ASCII, as it is sent


def _counting(condition: StatusCondition, count: str) -> StatusCondition:
    if condition.type != Condition.READY:
        return condition
    return replace(condition, message=cut(condition.message, MAX_MESSAGE - len(count)) + count)
