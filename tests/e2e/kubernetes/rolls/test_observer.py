"""The observer that watches all rolls: it reports partitions below their minimum, and lost records."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.kubernetes.rolls.rolling import TOPIC
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.process import wait_until


def test_two_brokers_killed_at_once_are_reported(racks: Racks, observer: Observer) -> None:
    """The two brokers are of two racks, so they share partitions. A roll must never kill two such brokers at once."""
    partitions = racks.partitions(TOPIC)
    pair = partitions[0][:2]
    shared = {f"{TOPIC}-{number}" for number, replicas in partitions.items() if {*pair} <= {*replicas}}
    mark = observer.mark()
    racks.delete(*(racks.node_ids[id_] for id_ in pair), now=True)
    wait_until(
        "it is reported", lambda: {one.get("partition") for one in observer.complaints(mark)} >= shared, step=0.5
    )
    wait_until("all replicas are in sync again", observer.in_sync, step=0.5)
    records = observer.verified()
    assert (records["lost"], records["unseen"]) == ([], [])  # no acknowledged record is lost all the same


def test_lost_records_are_reported(racks: Racks, tmp_path: Path) -> None:
    """The first three records of a topic that only this observer writes are deleted by Kafka's own tool."""
    topic, gone = "lossy", 3
    racks.create_topic(topic, 1)
    with Observer(racks, tmp_path / "observer", topic) as observer:
        wait_until("some are acknowledged", lambda: observer.verified()["acknowledged"] >= gone)
        assert observer.verified()["lost"] == []
        offsets = {"partitions": [{"topic": topic, "partition": 0, "offset": gone}], "version": 1}
        (tmp_path / "offsets.json").write_text(json.dumps(offsets))
        where = ("--bootstrap-server", racks.addresses("brokers"), "--offset-json-file", str(tmp_path / "offsets.json"))
        racks.tool("org.apache.kafka.tools.DeleteRecordsCommand", *where)
        assert sorted(observer.verified()["lost"]) == [f"{topic}-0@{offset}" for offset in range(gone)]
