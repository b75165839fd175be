"""Records how nodes go and come back, for the simulators: `python -m tests.e2e.kubernetes.rolls.record`.

Writes tests/golden/restarts/<release>.jsonl.gz: a line for each restart, of a broker, of two brokers of a rack at once
and of the active controller, with what the API server said of the pods and what the metadata log said, by time.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.network import HOST, network
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

FOLDER = Path(__file__).parents[3] / "golden" / "restarts"
OF_INTEREST = (
    "REGISTER_BROKER_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "PARTITION_CHANGE_RECORD",
    "REGISTER_CONTROLLER_RECORD",
)
KEPT = (
    *("brokerId", "brokerEpoch", "incarnationId", "fenced", "inControlledShutdown", "controllerId"),
    *("topic", "partitionId", "isr", "leader", "eligibleLeaderReplicas", "lastKnownElr"),
)
QUIET = 3.0  # seconds after the last change that was seen


def state(pod: dict[str, Any]) -> dict[str, Any]:
    """What changes of a pod while it goes and comes."""
    container: dict[str, Any] = next(iter(pod["status"].get("containerStatuses", ())), {})
    return {
        "uid": pod["metadata"]["uid"],
        "terminating": "deletionTimestamp" in pod["metadata"],
        "phase": pod["status"]["phase"],
        "container": next(iter(container.get("state", {})), ""),
        "ready": is_true("Ready", pod),
    }


def restart(racks: Racks, observer: Observer, *pods: str) -> dict[str, Any]:
    """The pods are deleted at the same instant, and come back."""
    seen: list[dict[str, Any]] = []
    last: dict[str, dict[str, Any]] = {}
    before, first = racks.uids(), racks.records()[-1]["offset"]
    mark, began = observer.mark(), time.time()
    racks.delete(*pods)

    def back() -> bool:
        now, found = time.time(), racks.pods()
        for pod in pods:
            told = state(found[pod]) if pod in found else {"gone": True}
            if told != last.get(pod):
                seen.append({"at": round(now - began, 3), "pod": pod, **told})
                last[pod] = told
        ready = all(last[pod].get("ready") and last[pod]["uid"] != before[pod] for pod in pods)
        return ready and now - began > seen[-1]["at"] + QUIET

    wait_until(f"{pods} are back", back, 120)
    told = racks.records()
    topics = {one["data"]["topicId"]: one["data"]["name"] for one in told if one["type"] == "TOPIC_RECORD"}
    chosen = (one for one in told if one["offset"] > first and one["type"] in OF_INTEREST)
    records = [_short(one, began, topics) for one in chosen]
    timeline = sorted([*seen, *records], key=lambda one: float(one["at"]))
    ids = [id_ for id_, pod in racks.node_ids.items() if pod in pods]
    assert observer.complaints(mark) == []
    return {"restarted": ids, "pods": pods, "timeline": timeline}


def _short(record: dict[str, Any], began: float, topics: dict[str, str]) -> dict[str, Any]:
    data = record["data"]
    data |= {"topic": topics[data["topicId"]]} if "topicId" in data else {}
    kept = {key: data[key] for key in KEPT if key in data}
    return {"at": round(record["at"] / 1000 - began, 3), "offset": record["offset"], "type": record["type"], **kept}


def record(racks: Racks, observer: Observer, version: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    leader = racks.leader()
    lines = [
        {"release": version, "nodes": racks.node_ids, "partitions": racks.partitions("orders")},
        restart(racks, observer, "brokers-1"),
        restart(racks, observer, "brokers-0", "brokers-3"),
        restart(racks, observer, racks.node_ids[leader]) | {"leader": leader},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (FOLDER / f"{version}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    told = observer.verified()
    print(f"{version}: {told['acknowledged']} records, lost {told['lost']}, slowest {told['slowest']} ms", flush=True)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rig-restarts-"))
    with network(), ControlPlane(folder / "plane", HOST) as plane, Node(plane, folder / "node") as node:
        for version in sys.argv[1:] or (MIDDLE, NEWEST):
            racks = Racks(node, f"kafka-{version.replace('.', '-')}")
            racks.apply(version)
            racks.wait_ready()
            racks.create_topic("orders", 12)
            with Observer(racks, folder / version, "orders") as observer:
                record(racks, observer, version)
            racks.remove()


if __name__ == "__main__":
    main()
