"""Logs and snapshots that nodes have just written, compared record by record with the dump tool of their release.

The oldest and the newest release are tested, and all of them with SOAK=1.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog import Damage, Replay
from kraftlog.reading import Reading
from tests.amounts import SOAK
from tests.e2e.kafka.cli import describe
from tests.e2e.kafka.wire import meddle
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import (
    admin,
    drop_rights,
    hold_broker_default,
    hold_credential,
    hold_quota,
    hold_rights,
    hold_topic,
)
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT
from tests.kraftlog.dump import compare

RELEASES = {OLD: ("3.7", 21), NEWEST: ("4.0", 30)}
RELEASES |= {MIDDLE: ("4.0", 27), RECENT: ("4.0", 29)} if SOAK else {}
PASSWORD = "alice-secret-9f3c"
EVERY_CLUSTER = {
    "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD", "REGISTER_CONTROLLER_RECORD", "FEATURE_LEVEL_RECORD",
    "TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD", "CONFIG_RECORD",
    "NO_OP_RECORD", "ACCESS_CONTROL_ENTRY_RECORD", "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", "USER_SCRAM_CREDENTIAL_RECORD",
    "CLIENT_QUOTA_RECORD", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER",
}  # fmt: skip
DUMP_TOOL = {OLD: "kafka.tools.DumpLogSegments", MIDDLE: "kafka.tools.DumpLogSegments"}
"""The class of the dump tool in releases before it moved to org.apache.kafka.tools."""


@pytest.fixture(scope="module", params=RELEASES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A stopped cluster whose log has records of all types in EVERY_CLUSTER."""
    version = request.param
    release, level = RELEASES[version]
    often = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    with Cluster(
        tmp_path_factory.mktemp("written"), version, controllers=1, brokers=2, dynamic=version != OLD,
        release_version=release, properties=often, authorizer=True,
    ) as cluster:  # fmt: skip
        meddle(cluster, "metadata.version", level)
        hold_topic(cluster, "t", {0: [1], 1: [2], 2: [1]})
        hold_topic(cluster, "gone", {0: [1]}, **{"retention.ms": "86400000"})
        hold_rights(cluster, "alice", "DESCRIBE", "ALTER")
        drop_rights(cluster)
        hold_credential(cluster, "alice", PASSWORD)
        hold_quota(cluster.nodes[1], "alice", "consumer_byte_rate", 1048576.0)
        hold_broker_default(cluster.nodes[1], "sasl.jaas.config.of.a.plugin", PASSWORD)
        with admin(cluster) as client:
            client.delete_topics(["gone"])
        cluster.nodes[2].stop()
        wait_until("there is a snapshot", lambda: files_of(cluster, "checkpoint"))
    return cluster


def files_of(cluster: Cluster, kind: str) -> list[Path]:
    return [path for node in cluster.nodes.values() for path in sorted(node.metadata_dir.glob(f"*.{kind}"))]


def test_every_batch_and_record_agrees_with_the_dump_tool(written: Cluster) -> None:
    paths = [*files_of(written, "log"), *files_of(written, "checkpoint")]
    # The tools are of 4.3.1. With the classes of 4.4.0 they print a whole file and then fail, so each file is a run.
    fails = written.version == NEWEST
    runs = [[path] for path in paths[:3] + paths[-3:]] if fails else [paths]
    for run in runs:
        tool = DUMP_TOOL.get(written.version, "org.apache.kafka.tools.DumpLogSegments")
        done = written.tool(tool, "--cluster-metadata-decoder", "--files", ",".join(map(str, run)), user=None)
        assert done.returncode == int(fails), done.stderr
        _, *parts = re.split(r"^Dumping (.+)$", done.stdout, flags=re.MULTILINE)
        dumped = dict(zip(parts[::2], parts[1::2], strict=True))
        assert dumped.keys() == {str(path) for path in run}
        for path in run:
            assert "baseOffset" in dumped[str(path)]
            assert compare(path.read_bytes(), dumped[str(path)]) == [], path


def test_the_image_has_the_brokers_controllers_and_levels_of_the_cluster_that_wrote_it(written: Cluster) -> None:
    replay = Replay()
    for path in files_of(written, "log")[:1]:
        replay.append(path.read_bytes(), below=2**62)
    image = replay.image()
    assert image.unreadable == 0
    assert set(image.brokers) == {1, 2}
    assert set(image.controllers) == {3001}
    assert image.features["metadata.version"] == RELEASES[written.version][1]


def test_every_byte_is_accounted_for_and_every_record_decoded(written: Cluster) -> None:
    found: Counter[str] = Counter()
    for path in [*files_of(written, "log"), *files_of(written, "checkpoint")]:
        reading = Reading(path.read_bytes())
        assert not [part for part in reading if isinstance(part, Damage)]
        assert reading.account.is_balanced
        assert reading.account.kept == {}
        found.update({kind: share.records for kind, share in reading.account.decoded.items()})
    assert found.keys() >= EVERY_CLUSTER


def test_the_log_commands_report_the_history_of_the_cluster_that_wrote_the_log(
    written: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checks `log verify` of each node's directory; `log state`, `timeline`, `state --at` and `ghosts` of the directory
    and of the same files in a bundle.
    """

    def output_of(*words: str) -> str:
        assert main([*words, "-o", "json"]) == Exit.DONE
        return capsys.readouterr().out

    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        for node in written.nodes.values():
            archive.add(node.metadata_dir, f"{node.id}/data/__cluster_metadata-0")
            archive.add(node.metadata_dir.parent / "meta.properties", f"{node.id}/data/meta.properties")
    started, level = RELEASES[written.version]
    for node in written.nodes.values():
        output_of("log", "verify", str(node.metadata_dir.parent))
        for path in (str(node.metadata_dir.parent), f"{bundle}:{node.id}/data/__cluster_metadata-0"):
            state = json.loads(output_of("log", "state", path))
            assert state["source"]["node"] == node.id
            assert {each["name"]: each["finalized"] for each in state["features"]}["metadata.version"] == level
            assert [(each["id"], each["role"]) for each in state["registrations"]] == [
                (3001, "Controller"), (1, "Broker"), (2, "Broker"),
            ]  # fmt: skip
            assert PASSWORD not in str(state)
            timeline = [json.loads(line) for line in output_of("log", "timeline", path).splitlines()]
            changes = [event for event in timeline if event.get("feature") == "metadata.version"]
            assert changes[0]["levelName"].startswith(started)
            assert (changes[-1]["level"], changes[0]["previous"]) == (level, 0)
            for event in timeline:
                # `takesEffect` is there, and false, where the quorum does not follow a record of kraft.version.
                if "feature" in event and "takesEffect" not in event:
                    next_offset = str(event.get("effectiveOffset", event["offset"]) + 1)
                    earlier_state = json.loads(output_of("log", "state", "--at", next_offset, path))
                    levels = {each["name"]: each["finalized"] for each in earlier_state["features"]}
                    assert levels.get(event["feature"], 0) == event["level"]
            last_of_stopped_broker = [event for event in timeline if event.get("id") == 2][-1]
            assert last_of_stopped_broker["event"] in ("Fencing", "Registration")  # not Unregistration
            assert json.loads(output_of("log", "ghosts", path))["ghosts"] == []


def test_no_secret_of_a_node_is_shown(written: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files_of(written, "log") + files_of(written, "checkpoint")
    assert main(["log", "decode", "-o", "json", *map(str, paths)]) == Exit.DONE
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    credentials = [record["data"] for record in records if record["type"] == "USER_SCRAM_CREDENTIAL_RECORD"]
    assert credentials
    assert {credential[field] for credential in credentials for field in ("salt", "storedKey", "serverKey")} == {
        "(redacted)"
    }
    configs = {each["data"]["name"]: each["data"]["value"] for each in records if each["type"] == "CONFIG_RECORD"}
    assert configs["sasl.jaas.config.of.a.plugin"] == "(redacted)"
    assert configs["retention.ms"] == "86400000"
    assert PASSWORD not in str(records)


def test_levels_that_a_directory_was_formatted_with_are_those_of_the_cluster_only_where_its_leader_wrote_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka 4.4 formats a directory with levels (KIP-1170), which a leader of 4.3 never reads. Here 4.4 (`NEWEST`)
    formats the directory of the only controller, and 4.3 (`RECENT`) runs it.
    """
    with Cluster(
        tmp_path, NEWEST, controllers=1, brokers=1, dynamic=True, release_version="4.3", versions={3001: RECENT}
    ) as cluster:
        live = {one["name"]: one["finalized"] for one in describe(cluster)["features"]}
        (first,) = cluster.nodes[3001].metadata_dir.glob("*.checkpoint")
        assert b"transaction.version" in first.read_bytes()
        for node in cluster.nodes.values():
            assert main(["describe", "--from", str(node.metadata_dir.parent), "-o", "json"]) == Exit.DONE
            document = json.loads(capsys.readouterr().out)
            assert {one["name"]: one["finalized"] for one in document["features"]} == live
        assert live["transaction.version"] == 0
