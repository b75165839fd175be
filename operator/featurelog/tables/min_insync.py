"""What requests have set of `min.insync.replicas` for brokers, by a log, and whether ELR can be raised on top of that.

Called by `walk`, which reads it, and by `upgrade_readiness`, which judges it by the operator's rule
(`core/levels/min_insync.py`). A log never has what the file of a node says: where that decides, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from featurelog.tables.tracks import Track, Version
from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.core.engine.blockers import titled
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS
from kafkafeatures.core.levels.min_insync import raised, set_by_requests, to_set_for_all
from kraftlog.partition_records import BROKER_RESOURCE

FOR_ALL = ""
"""Resource name of a config that is for all brokers."""

SETTING, MIN_INSYNC, NOT_COMMITTED = "Setting", "min_insync_replicas", "not_committed"

_UNREAD = (
    f"raising {ELIGIBLE_LEADER_REPLICAS} writes the {MIN_INSYNC_REPLICAS} of the active controller's file for all "
    "brokers, and what the files of nodes say is in no log: ask the nodes (kafkafeatures plan), or set a value for all "
    f"brokers: {to_set_for_all()}"
)


def value_of(data: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """The id of the broker, or `FOR_ALL`, and what a CONFIG_RECORD sets for it; None where it sets something else."""
    if data["resourceType"] != BROKER_RESOURCE or data["name"] != MIN_INSYNC_REPLICAS:
        return None
    return data["resourceName"], data["value"]


def findings(configs: Track[str], brokers: Collection[int], below: int) -> Iterator[tuple[str, str]]:
    """Settings that prevent a raise of ELR from 0, as kind and text; `SETTING` blocks it, any other kind is a doubt.

    brokers: all that are registered, or would be if what is not surely committed is undone. below: what surely is.
    """
    values = {name: version.value for name, version in configs.current.items()}
    for_all = values.get(FOR_ALL)
    effect = raised([(id_, set_by_requests(for_all, values.get(str(id_)))) for id_ in brokers], ())
    if not effect.has_default:
        yield MIN_INSYNC, _UNREAD
    elif effect.losing:
        ids = [id_ for id_, _ in effect.losing]
        yield SETTING, effect.text(titled("broker", ids), "uses" if len(ids) == 1 else "use")
    for name in (FOR_ALL, *map(str, brokers)):
        if any(_may_change(version, for_all, below) for version in configs.of_key(name)):
            whose = f"broker {name}" if name else "all brokers"
            yield NOT_COMMITTED, f"the last change of {MIN_INSYNC_REPLICAS} for {whose} may not be committed"


def _may_change(version: Version[str], for_all: str | None, below: int) -> bool:
    """True if a leader may yet undo a record, so that a value holds that differs from the current one for all."""
    is_undone_to_itself = version.end is not None and version.may_hold(below) and version.value != for_all
    return is_undone_to_itself or (version.key == FOR_ALL and version.end is None and not version.is_committed(below))
