"""Writes a whole fleet: `logs/<cluster>/<node>/...`, KafkaFeatures documents of some clusters, and `fleet.json` about
it.

It takes an empty folder only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import asdict

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import HistoryEntry, Result, Status
from kafkasim.fleet.files import write_cluster
from kafkasim.fleet.history import History, live
from kafkasim.fleet.plan import UNTIL_MS, ClusterPlan, Scale, draw, levels_of
from kafkasim.releases import KRAFT_VERSION

LOGS, DOCUMENTS, ABOUT = "logs", "documents", "fleet.json"


def write_fleet(
    folder: Path, scale: Scale, *, seed: int = 1, until_ms: int = UNTIL_MS, tell: Callable[[str], None] | None = None
) -> None:
    """Write the logs of a whole fleet. Raises FileExistsError if the folder is not empty.

    until_ms: time at which all histories end, in ms since the epoch.
    tell: called with a line for each cluster; None: nobody is told.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    plans = draw(scale, seed)
    (folder / DOCUMENTS).mkdir()
    for plan in plans:
        history = live(plan, scale, until_ms=until_ms)
        write_cluster(folder / LOGS / plan.name, history, scale)
        if plan.documented:
            text = yaml.safe_dump(document(history), sort_keys=False)
            (folder / DOCUMENTS / f"{plan.name}.yaml").write_text(text)
        if tell is not None:
            tell(f"{plan.name}: {plan.story.value}")
    (folder / ABOUT).write_text(json.dumps(_about(plans, scale, seed, until_ms), indent=1) + "\n")


def document(history: History) -> dict[str, Any]:
    """The KafkaFeatures document of a cluster: its desired levels, and in its status the changes that led there."""
    plan = history.plan
    desired = levels_of(plan.after if plan.finalized is not None else plan.before, dynamic=False)
    status = Status(
        cluster_id=history.cluster_id,
        history=tuple(
            HistoryEntry(
                at=Stamp(_moment(each.at_ms)),
                action=f"{each.feature} {each.before} -> {each.after}",
                target=each.feature,
                result=Result.APPLIED.value,
            )
            for each in history.changes
            if each.by_operator
        ),
    )
    return {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": plan.name, "namespace": "kafka"},
        "spec": {
            "cluster": {"bootstrapServers": f"broker-1.{plan.name}.example:9092", "clusterId": history.cluster_id},
            "features": {
                "levels": [{"name": name, "level": each} for name, each in desired.items() if name != KRAFT_VERSION]
            },
        },
        "status": status.as_json(),
    }


def _about(plans: list[ClusterPlan], scale: Scale, seed: int, until_ms: int) -> dict[str, Any]:
    return {
        "note": "A generated fleet: no Kafka wrote these logs. NoOp records are there as Kafka writes them by default, "
        "every 500 ms, in the clusters whose idleMs is 500; in the others they are thinned to one every idleMs.",
        "seed": seed,
        "until": _moment(until_ms),
        "scale": asdict(scale),
        "clusters": [
            {
                "name": plan.name,
                "story": plan.story.value,
                "release": plan.after.name,
                "brokers": len(plan.brokers),
                "idleMs": plan.idle_ms,
                "documented": plan.documented,
            }
            for plan in plans
        ],
    }


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
