"""Judges whether `eligible.leader.replicas.version` can be raised, by the `min.insync.replicas` in dynamic broker
configs.

Called by `walk` and `snapshot_state`, which read the configs, and by `upgrade_readiness`, which applies the operator's
rule (`core/levels/min_insync.py`). A log does not have the values in properties files: where they matter, the result is
unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from featurelog.tables.tracks import Track, Version
from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.core.engine.blockers import titled
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS
from kafkafeatures.core.levels.min_insync import effect_of_raise, set_by_requests, to_set_for_all
from kraftlog.partition_records import BROKER_RESOURCE

FOR_ALL = ""
"""Resource name of configs for all brokers."""

SETTING, MIN_INSYNC, NOT_COMMITTED = "Setting", "min_insync_replicas", "not_committed"

_VALUE_IN_FILES = (
    f"raising {ELIGIBLE_LEADER_REPLICAS} writes the {MIN_INSYNC_REPLICAS} of the active controller's file for all "
    "brokers, and what the files of nodes say is in no log: ask the nodes (kafkafeatures plan), or set a value for all "
    f"brokers: {to_set_for_all()}"
)


def value_of(data: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """(broker id or `FOR_ALL`, value) that a CONFIG_RECORD sets; None if it is about another config."""
    if data["resourceType"] != BROKER_RESOURCE or data["name"] != MIN_INSYNC_REPLICAS:
        return None
    return data["resourceName"], data["value"]


def findings(configs: Track[str], brokers: Collection[int], below: int) -> Iterator[tuple[str, str]]:
    """Settings that prevent a raise of ELR from 0, as kind and text; `SETTING` blocks it, any other kind is a doubt.

    brokers: those that are registered, or would be if records that are not certainly committed were undone. below:
    records below this offset are certainly committed.
    """
    values = {name: version.value for name, version in configs.current.items()}
    for_all = values.get(FOR_ALL)
    effect = effect_of_raise([(id_, set_by_requests(for_all, values.get(str(id_)))) for id_ in brokers], ())
    if not effect.has_default:
        yield MIN_INSYNC, _VALUE_IN_FILES
    elif effect.losing:
        ids = [id_ for id_, _ in effect.losing]
        yield SETTING, effect.text(titled("broker", ids), "uses" if len(ids) == 1 else "use")
    for name in (FOR_ALL, *map(str, brokers)):
        if any(_may_change(version, for_all, below) for version in configs.of_key(name)):
            whose = f"broker {name}" if name else "all brokers"
            yield NOT_COMMITTED, f"the last change of {MIN_INSYNC_REPLICAS} for {whose} may not be committed"


def _may_change(version: Version[str], for_all: str | None, below: int) -> bool:
    """True if a new leader may undo records that decide on the value of one resource. Then either an earlier value
    comes back that differs from the current one for all brokers, or that current one for all brokers is gone.
    """
    earlier_value_returns = version.end is not None and version.may_hold(below) and version.value != for_all
    value_for_all_goes = version.key == FOR_ALL and version.end is None and not version.is_committed(below)
    return earlier_value_returns or value_for_all_goes
