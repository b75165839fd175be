"""Writes tests/golden/conformance anew from real nodes: `python -m tests.conformance.record`."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.wire.codec import decode_response, encode_request
from kafkafeatures.kafka.wire.messages import DescribeQuorumRequest, UpdateFeaturesRequest
from tests.conformance import changes, downgrades, names, unregistrations
from tests.conformance.cases import GOLDEN, UPGRADE, WORLDS, Updates, World, cases, request_of
from tests.e2e.rig.asking import asked
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

QUORUM = encode_request(DescribeQuorumRequest(), version=1, correlation_id=7, client_id=None)
RAISE_KRAFT = encode_request(
    UpdateFeaturesRequest(((changes.KRAFT, 1, UPGRADE),), validate_only=True),
    version=1, correlation_id=7, client_id=None,
)  # fmt: skip


def ask(node: Node, request: bytes) -> bytes:
    """The reply without its length, over a connection of its own."""
    return asked(node.port, request)


def answers(world: World, cluster: Cluster) -> Iterator[tuple[Updates, bytes]]:
    """Every case, asked of the active controller of one with one broker, formatted as the world is."""
    for updates in cases(world):
        yield updates, ask(cluster.nodes[3001], request_of(world, updates))


def changed(world: World, folder: Path) -> Iterator[changes.Row]:
    """Every step, and what came of it."""
    begin, _ = changes.FORMAT[world.version]
    with Cluster(folder, world.version, controllers=3, brokers=1, release_version=begin) as cluster:
        leader = cluster.leader()
        wait_until("the voters have told the leader what they support", lambda: may_raise_kraft(cluster.nodes[leader]))
        _, before = _settled(cluster, leader)
        for step in changes.steps(world):
            reply = ask(cluster.nodes[changes.node_of(step, leader)], step.request)
            levels, epoch = _settled(cluster, leader)
            yield changes.Row(step, leader, reply, levels, epoch > before)
            before = epoch
        assert cluster.leader() == leader, "another controller was elected meanwhile: record again"


def replies_to_downgrades(world: World, folder: Path) -> Iterator[downgrades.Row]:
    """Reply of a real active controller to each downgrade, while the higher level is finalized."""
    low = downgrades.LOWEST
    with Cluster(folder, world.version, controllers=1, brokers=1, release_version=low) as cluster:
        active = cluster.nodes[3001]
        supported = decode_response(18, 4, ask(active, changes.WHICH_LEVELS))[1].supported_features
        for feature, level, below in downgrades.in_order(supported):
            finalize(active, world, feature, level)
            for lower in below:
                asked = downgrades.Row(feature, level, lower, b"")
                yield replace(asked, reply=ask(active, request_of(world, asked.updates)))


def finalize(active: Node, world: World, feature: str, level: int, kind: int = UPGRADE) -> None:
    """Sent until it holds: just after metadata.version 3.7-IV0 the controller has to register first."""
    request = request_of(world, ((feature, level, kind),), validate_only=False)

    def holds() -> bool:
        return bool(changes.levels_in(ask(active, changes.WHICH_LEVELS))[0].get(feature, 0) == level)

    wait_until(f"{feature} {level} is finalized", lambda: holds() or (bool(ask(active, request)) and holds()))


def unregistered(folder: Path) -> Iterator[unregistrations.Row]:
    """Every step, on a cluster that is raised in between."""
    begin, _ = unregistrations.FORMAT
    with Cluster(folder, NEWEST, controllers=3, brokers=1, release_version=begin) as cluster:
        leader = cluster.leader()
        raised = False
        for to, whom, late in unregistrations.steps():
            if late and not raised:
                ask(cluster.nodes[leader], unregistrations.RAISE)
                raised = True
            row = unregistrations.Row(to, whom, late, leader, b"")
            yield replace(row, reply=ask(cluster.nodes[row.node], row.request))
        assert cluster.leader() == leader, "another controller was elected meanwhile: record again"


def named(cluster: Cluster) -> Iterator[names.Row]:
    """Every name, asked of a cluster of one broker and one controller."""
    for row in names.rows():
        yield replace(row, reply=ask(cluster.nodes[row.node], row.request(cluster.cluster_id)))


def may_raise_kraft(active: Node) -> bool:
    """Each voter tells a new leader which kraft.version it supports, after controller.quorum.fetch.timeout.ms."""
    return bool(decode_response(57, 1, ask(active, RAISE_KRAFT))[1].error_code == 0)


def _settled(cluster: Cluster, leader: int) -> tuple[Mapping[str, int], int]:
    """What the active controller says, once the broker holds all that was written and says the same levels.

    A broker's FinalizedFeaturesEpoch is the offset of the newest record it holds.
    """
    end = decode_response(55, 1, ask(cluster.nodes[leader], QUORUM))[1].high_watermark
    found: list[tuple[Mapping[str, int], int]] = []

    def alike() -> bool:
        levels, newest = changes.levels_in(ask(cluster.nodes[1], changes.WHICH_LEVELS))
        found[:] = [changes.levels_in(ask(cluster.nodes[leader], changes.WHICH_LEVELS))]
        return newest >= end - 1 and levels == found[0][0]

    wait_until(f"the broker holds all below offset {end} and says the levels of the active controller", alike)
    return found[0]


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.writelines(lines)
    print(path.name, len(lines))


def _shown(row: changes.Row) -> Mapping[str, Any]:
    step = {"to": row.step.to, "version": row.step.version, "updates": row.step.updates}
    return step | {"leader": row.leader, "reply": row.reply.hex(), "levels": row.levels, "moved": row.moved}


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for world in WORLDS.values():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "cases"
            with Cluster(root, world.version, controllers=1, brokers=1, release_version=world.format) as cluster:
                found = answers(world, cluster)
                _write(world.golden, ({"updates": updates, "reply": reply.hex()} for updates, reply in found))
            _write(changes.golden_of(world), map(_shown, changed(world, Path(folder) / "changes")))
            rows = replies_to_downgrades(world, Path(folder) / "downgrades")
            _write(downgrades.golden_of(world), ({**asdict(row), "reply": row.reply.hex()} for row in rows))
    with tempfile.TemporaryDirectory() as folder:
        found_of_4_4 = unregistered(Path(folder) / "unregistered")
        _write(unregistrations.RECORDED, ({**asdict(row), "reply": row.reply.hex()} for row in found_of_4_4))
        with Cluster(Path(folder) / "names", NEWEST, controllers=1, brokers=1) as cluster:
            _write(names.RECORDED, ({**asdict(row), "reply": row.reply.hex()} for row in named(cluster)))


if __name__ == "__main__":
    main()
