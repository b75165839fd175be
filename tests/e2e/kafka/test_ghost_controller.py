"""A ghost controller on real nodes of Kafka 4.4: how it comes about, what it blocks, and how it is removed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.kafka.wire.codec import decode_response
from tests.conformance.record import ask
from tests.conformance.unregistrations import request_of
from tests.e2e.kafka.cli import describe, levels, node, run, unregister_at_terminal, wait_for, write_document
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST, RECENT

GONE = 3003


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster at the highest level that its oldest controller supports. That one was then removed from the quorum."""
    with Cluster(
        tmp_path / "kafka", NEWEST, controllers=3, brokers=1, dynamic=True, release_version="4.3",
        versions={GONE: RECENT},
    ) as running:  # fmt: skip
        running.remove_voter(running.nodes[GONE])
        wait_until("another controller leads", lambda: running.leader() != GONE)
        yield running


def refused(cluster: Cluster, controller: int) -> str:
    """The message with which `unregister` refuses to unregister a controller."""
    flags = "--yes", "--bootstrap-server", cluster.bootstrap_servers
    done = run("unregister", "--controller", str(controller), *flags)
    assert (done.returncode, done.stdout) == (4, ""), done
    return done.stderr


def on_disk(cluster: Cluster, *words: str, of: int) -> Any:
    """The output of a command that reads the files of a node while the node runs."""
    done = run(*words, str(cluster.nodes[of].metadata_dir.parent), "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if "timeline" in words else json.loads(done.stdout)


def suspected(cluster: Cluster, of: int) -> list[dict[str, Any]]:
    """The ghosts that `log ghosts` suspects from the files of a node."""
    found: list[dict[str, Any]] = on_disk(cluster, "log", "ghosts", of=of)["ghosts"]
    return found


class Tables:
    """The pipeline, over copies of the log directories of all nodes that run."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._config = folder / "pipeline.yaml"
        folder.mkdir()
        fields = {"inputs": [str(folder / "logs")], "output": str(folder / "tables"), "spark": {"enabled": False}}
        self._config.write_text(json.dumps(fields))  # JSON is also YAML

    def gate(self, target: str) -> Any:
        """Copy the directories again and run the pipeline again. Returns the verdict on the cluster."""
        for running in self._cluster.nodes.values():
            if running.alive:
                copy = self._folder / "logs" / "orders" / str(running.id)
                shutil.copytree(running.metadata_dir, copy / running.metadata_dir.name, dirs_exist_ok=True)
                shutil.copy(running.metadata_dir.parent / "meta.properties", copy)
        done = run("pipeline", "run", "--config", str(self._config))
        assert done.returncode == 0, done.stderr
        done = run("pipeline", "gate", "--config", str(self._config), "--feature", target)
        document = json.loads(done.stdout)
        assert done.returncode == {"ready": 0, "blocked": 4, "unknown": 5}[document["verdict"]]
        (found,) = document["clusters"]
        return found

    def page(self, release: str) -> str:
        """The page of the cluster that `pipeline report` writes."""
        folder = self._folder / f"pages-{release}"
        done = run("pipeline", "report", "--config", str(self._config), "--release", release, "--html", str(folder))
        assert done.returncode == 0, done.stderr
        (page,) = (path for path in folder.glob("*.html") if path.name != "fleet.html")
        return page.read_text()


def state(cluster: Cluster) -> str:
    """The state of the controller that is gone; empty if `describe` does not list it."""
    return "".join(item["state"] for item in describe(cluster)["nodes"] if item["id"] == GONE)


def raised(cluster: Cluster, document: Path) -> subprocess.CompletedProcess[str]:
    return run("apply", "-f", str(document))


def test_a_ghost_controller_blocks_the_raise_until_its_id_ran_on_the_new_kafka_and_is_then_unregistered(
    cluster: Cluster, tmp_path: Path
) -> None:
    gone, leader = cluster.nodes[GONE], cluster.leader()
    voter = next(n.id for n in cluster.controllers if n.id not in (leader, GONE))
    document = write_document(
        tmp_path / "levels.yaml", {"metadata.version": 33}, bootstrapServers=cluster.bootstrap_servers
    )

    # A controller that the quorum needs, or that runs, cannot be unregistered.
    assert f"controller {leader} is the active controller" in refused(cluster, leader)
    assert f"controller {voter} is a voter" in refused(cluster, voter)
    assert "controller 4711 is not registered" in refused(cluster, 4711)
    assert f"controller {GONE} answers at 127.0.0.1:{gone.port}; stop it first" in refused(cluster, GONE)
    gone.kill()
    assert f"controller {GONE} was fetching the metadata log seconds ago" in refused(cluster, GONE)

    # Now it is a ghost. It cannot be unregistered yet, and Kafka's own tool names only the range that it supports.
    wait_for(cluster, NodeState.GHOST, GONE)
    assert node(describe(cluster), GONE)["features"]["metadata.version"] == {"min": 7, "max": 30}

    # The files of each node name the same ghost, with the record of its last registration.
    for running in (leader, voter, cluster.brokers[0].id):
        (ghost,) = suspected(cluster, running)
        assert (ghost["id"], ghost["role"], ghost["reason"]) == (GONE, "Controller", "registered, but not a voter")
        assert ghost["features"]["metadata.version"] == {"min": 7, "max": 30}
        timeline = on_disk(cluster, "log", "timeline", of=running)
        *_, last = (item for item in timeline if item["event"] == "Registration" and item["id"] == GONE)
        assert ghost["lastRegistration"] == {name: last[name] for name in ("file", "offset", "timestamp")}
        assert last["incarnation"] == ghost["incarnation"]
        from_files = on_disk(cluster, "describe", "--from", of=running)
        live = describe(cluster)
        assert from_files["clusterId"] == live["clusterId"]
        assert {item["id"]: item["features"] for item in from_files["nodes"]} == {
            item["id"]: item["features"] for item in live["nodes"]
        }
        finalized = {item["name"]: item["finalized"] for item in from_files["features"]}
        assert finalized == {item["name"]: item["finalized"] for item in live["features"]}
    # The tables, the gate and the page, which are made from copies of the files, name it too.
    (ghost,), tables = suspected(cluster, leader), Tables(cluster, tmp_path / "pipeline")
    verdict = tables.gate("metadata.version=33")
    (blocker,) = verdict["blockers"]["nodes"]
    assert (verdict["verdict"], blocker["nodeId"], blocker["reason"]) == ("blocked", GONE, "NodeRange")
    assert blocker["ghostSuspect"] is True
    assert (blocker["file"], blocker["offset"]) == tuple(ghost["lastRegistration"][name] for name in ("file", "offset"))
    page = re.sub(r"<[^>]*>", "", tables.page("4.4"))
    assert "metadata.version 7-30 (up to 4.3-IV0); 33 (4.4-IV2) is required" in page
    assert f"{ghost['lastRegistration']['file']}, offset {ghost['lastRegistration']['offset']}" in page
    assert f"controller {GONE}: " in page
    assert "may be a ghost registration" in page
    assert f"if controller {GONE} is permanently gone" in page
    tool = cluster.tool(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers,
        "upgrade", "--feature", "metadata.version=33",
    )  # fmt: skip
    assert f"Controller {GONE} only supports versions 7-30" in tool.stdout + tool.stderr
    blocked = raised(cluster, document)
    assert blocked.returncode == 4
    cure = f"start a controller with id {GONE} on the new Kafka once, so that it registers again, then stop it"
    assert cure in blocked.stderr
    low = refused(cluster, GONE)
    assert "once metadata.version 33 (4.4-IV2) is finalized; it is 30 (4.3-IV0)" in low
    assert cure in low

    # The remedy that the message named. If the controller voted for itself last, Kafka would start it as a candidate,
    # which only a voter may be.
    (gone.metadata_dir / "quorum-state").unlink(missing_ok=True)
    gone.start(NEWEST)
    wait_until("it registered anew", gone.has_registered)
    gone.stop()
    done = raised(cluster, document)
    assert done.returncode == 0, done.stderr
    assert levels(describe(cluster))["metadata.version"] == 33
    wait_for(cluster, NodeState.GHOST, GONE)
    text = run("describe", "--bootstrap-server", cluster.bootstrap_servers).stdout
    text = " ".join(text.replace("\\\n", "").split())  # a terminal of 80 columns breaks the command
    assert f"kafkafeatures unregister --controller {GONE} --bootstrap-server {cluster.bootstrap_servers}" in text
    assert unregister_at_terminal(cluster, "controller", GONE, "3004").code == 4
    cured = unregister_at_terminal(cluster, "controller", GONE, str(GONE))
    assert (cured.code, cured.lines[-1]) == (0, f"controller {GONE} is no longer registered"), cured
    assert state(cluster) == ""
    wait_until("the files say so", lambda: not suspected(cluster, leader))
    # Ready or unknown: nodes without a snapshot yet cannot be distinguished from copies of one node.
    wait_until("the gate says so", lambda: tables.gate("metadata.version=33")["verdict"] != "blocked")
    assert tables.gate("metadata.version=33")["blockers"]["nodes"] == []
    assert "may be a ghost registration" not in tables.page("4.4").partition("Feature timeline")[0]

    # Kafka itself unregisters any controller that is named, also one that was stopped only a moment ago.
    gone.start()
    wait_until("it registered once more", gone.has_registered)
    wait_for(cluster, NodeState.LIVE, GONE)
    gone.kill()
    answer: Any = decode_response(94, 0, ask(cluster.nodes[cluster.leader()], request_of(GONE)))[1]
    assert answer.error_code == 0
    # The leader drops a replica that no longer fetches only after five minutes. This must be faster.
    wait_until("it is not registered", lambda: state(cluster) != "Unreachable", seconds=30)
    assert state(cluster) == ""
