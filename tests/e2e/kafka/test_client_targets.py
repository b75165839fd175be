"""The API versions of each release in `targets.json`, against the schemas in its jars, and against a real broker."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess

import pytest

from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.targets import ALIASES, Acceptance
from kafkafeatures.kafka.base.api_names import API_NAMES
from tests.clients.generate.__main__ import TARGETS, rows, text
from tests.e2e.kafka.conftest import SMALL, Borrow
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import OLD, release
from tests.kraftlog.generate.definitions import jars

TABLE = client_targets()
REFUSED = re.compile(r"Received request for api with key \d+ \((\w+)\) and unsupported version (\d+)")


def test_generating_the_targets_again_gives_what_is_there() -> None:
    assert text(rows()) == TARGETS.read_text()


FORMER = ("2.0.1", "2.2.2", "2.3.1", "2.4.1", "2.6.3", "2.8.2", "3.1.2", "3.4.1", "3.8.1")
"""Former releases of Kafka, some of whose APIs have other names."""


def test_every_name_that_an_api_had_since_kafka_2_is_known() -> None:
    (logging,) = (release(OLD).home / "libs").glob("slf4j-api-*.jar")
    known = {name for apis in TABLE.releases.values() for name in apis} | ALIASES.keys()
    source = str(TARGETS.parents[4] / "tests/clients/generate/ApiNames.java")
    for version, jar in jars("kafka-clients", FORMER, "former-clients").items():
        command = ["java", "-cp", f"{jar}:{logging}", source]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert set(names) - known == set(), version
        assert "ApiVersions" in names


def test_the_versions_that_kafka_4_removed_are_those_that_its_release_notes_name() -> None:
    releases = json.loads(TARGETS.read_text())
    old, new = releases["3.9"], releases["4.1"]
    removed = {
        name: (old[name]["min"], new[name]["min"] - 1)
        for name in old
        if name in new and new[name]["min"] > old[name]["min"] and new[name]["scope"] == "client"
    }
    assert removed["ShareFetch"] == (0, 0)
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


def knock(port: int, key: int, version: int) -> None:
    """Send the header of a request, and wait for the broker to answer or to close the connection."""
    header = struct.pack(">hhih", key, version, 1, 3) + b"old" + b"\0"
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(2)
        connection.sendall(struct.pack(">i", len(header)) + header)
        with contextlib.suppress(OSError):
            connection.recv(100)


@pytest.mark.parametrize("version", [version for version in SMALL if version[0] == "4"])
def test_a_real_broker_refuses_exactly_the_versions_that_the_table_calls_removed(borrow: Borrow, version: str) -> None:
    broker = borrow(f"small {version}").brokers[0]
    target = TABLE.of(version)
    assert target is not None
    keys = {name: key for key, name in API_NAMES.items()}
    versions = [
        (name, number)
        for name, entry in TABLE.releases["3.9"].items()
        if entry.scope in ("client", "unstable") and name in target
        for number in range(target[name].min + 1)
    ]
    removed = {each for each in versions if TABLE.acceptance(target, *each) is Acceptance.REMOVED}
    assert len(removed) > 20
    before = len(broker.log)
    for name, number in versions:
        knock(broker.port, keys[name], number)

    def refused() -> set[tuple[str, int]]:
        return {(name, int(number)) for name, number in REFUSED.findall(broker.log[before:])}

    wait_until("the broker has logged them", lambda: refused() >= removed, 20)
    assert refused() == removed
