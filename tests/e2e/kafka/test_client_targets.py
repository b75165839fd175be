"""The API versions of each release in `targets.json`, against the schemas in its jars: no node is started."""

from __future__ import annotations

import json

from tests.clients.generate.__main__ import TARGETS, rows, text


def test_generating_the_targets_again_gives_what_is_there() -> None:
    assert text(rows()) == TARGETS.read_text()


def test_the_versions_that_kafka_4_removed_are_those_that_its_release_notes_name() -> None:
    releases = json.loads(TARGETS.read_text())
    old, new = releases["3.9"], releases["4.1"]
    removed = {
        name: (old[name]["min"], new[name]["min"] - 1)
        for name in old
        if name in new and new[name]["min"] > old[name]["min"] and new[name]["scope"] == "client"
    }
    assert removed | {"ShareFetch": (0, 0)} == removed
    stable = {name: span for name, span in removed.items() if old[name]["scope"] == "client"}
    assert stable == {
        "Produce": (0, 2), "Fetch": (0, 3), "ListOffsets": (0, 0), "OffsetCommit": (0, 1), "OffsetFetch": (0, 0),
        "CreateTopics": (0, 1), "DeleteTopics": (0, 0), "OffsetForLeaderEpoch": (0, 1), "DescribeAcls": (0, 0),
        "CreateAcls": (0, 0), "DeleteAcls": (0, 0), "DescribeConfigs": (0, 0), "AlterReplicaLogDirs": (0, 0),
        "DescribeLogDirs": (0, 0), "CreateDelegationToken": (0, 0), "RenewDelegationToken": (0, 0),
        "ExpireDelegationToken": (0, 0), "DescribeDelegationToken": (0, 0),
    }  # fmt: skip
    assert {name for name in old if name not in new and old[name]["scope"] == "client"} == {
        "ListClientMetricsResources"  # renamed, ListConfigResources
    }
