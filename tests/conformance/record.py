"""Writes tests/golden/conformance anew from real nodes: `python -m tests.conformance.record`."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import tempfile
from pathlib import Path

from tests.conformance.cases import GOLDEN, WORLDS, World, cases, request_of
from tests.e2e.rig.cluster import Cluster


def answers(world: World, cluster: Cluster) -> list[tuple[list[list[object]], bytes]]:
    """Every case, asked of the active controller on one connection."""
    found = []
    with socket.create_connection(("127.0.0.1", cluster.nodes[3001].port), timeout=30) as link:
        stream = link.makefile("rb")
        for updates in cases(world):
            request = request_of(world, updates)
            link.sendall(struct.pack(">i", len(request)) + request)
            (length,) = struct.unpack(">i", stream.read(4))
            found.append(([list(one) for one in updates], stream.read(length)))
        stream.close()
    return found


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for world in WORLDS.values():
        with (
            tempfile.TemporaryDirectory() as folder,
            Cluster(Path(folder), world.version, controllers=1, brokers=1, release_version=world.format) as cluster,
        ):
            rows = answers(world, cluster)
        with gzip.GzipFile(world.golden, "wb", mtime=0) as file:
            for updates, reply in rows:
                file.write(json.dumps({"updates": updates, "reply": reply.hex()}).encode() + b"\n")
        print(world.version, len(rows))


if __name__ == "__main__":
    main()
