"""Writes tests/golden/replies anew from real nodes: `python -m tests.fuzz.record`."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from kafkafeatures.kafka.base.settings import Sasl
from kafkafeatures.kafka.wire import sasl
from kafkafeatures.kafka.wire.codec import decode_response, encode_request, every_api
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, DescribeQuorumRequest, OffsetAndEpoch
from kafkafeatures.kafka.wire.sasl_codec import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.e2e.rig.cluster import CLIENT, CONTROLLER, INTERNAL, Cluster
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT
from tests.fuzz.replies import BROKER, CONTROL, REPLIES, Reply, log_requests

KIND = "SCRAM-SHA-512"
ABROAD = 99  # a version of ApiVersions that no node has


class Line:
    """A connection that is asked by hand, in the version that was meant."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name

    def ask(self, message: Any, version: int, as_version: int | None = None) -> Reply:
        request = encode_request(message, version=version, correlation_id=7, client_id="recorder")
        if as_version is not None:
            request = request[:2] + struct.pack(">h", as_version) + request[4:]
        self._stream.write(struct.pack(">i", len(request)) + request)
        self._stream.flush()
        (length,) = struct.unpack(">i", self._stream.read(4))
        return Reply(message.api_key, version, f"{self._name}: {message}", self._stream.read(length))


@contextlib.contextmanager
def line(port: int, name: str, trust: ssl.SSLContext | None = None) -> Iterator[Line]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        link = trust.wrap_socket(plain, server_hostname="localhost") if trust else plain
        with link, link.makefile("rwb") as stream:
            yield Line(cast("IO[bytes]", stream), name)


def answers(release: str, folder: Path) -> Iterator[Reply]:
    properties = {"metadata.log.max.snapshot.interval.ms": "1000"}
    with Cluster(
        folder, release, controllers=3, brokers=2, kind=KIND, controller_kind="PLAINTEXT", properties=properties
    ) as cluster:
        made = cluster.tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap_servers,
            *"--create --topic orders --partitions 5 --replication-factor 2".split(),
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        active = cluster.nodes[cluster.leader()]
        wait_until("there is a snapshot", lambda: max(active.metadata_dir.glob("*-*.checkpoint"), default=None))
        snapshot = OffsetAndEpoch(*map(int, max(active.metadata_dir.glob("*-*.checkpoint")).stem.split("-")))
        with line(active.ports[CONTROLLER], "active controller") as asked:
            quorum = asked.ask(DescribeQuorumRequest(), 1)
        log = log_requests(decode_response(55, 1, quorum.data)[1].leader_epoch, snapshot)
        standby = next(node for node in cluster.controllers if node is not active)
        asked_of: tuple[tuple[int, str, list[Any]], ...] = (
            (cluster.nodes[1].ports[INTERNAL], "broker", BROKER),
            (active.ports[CONTROLLER], "active controller", [*CONTROL, *log]),
            (standby.ports[CONTROLLER], "standby controller", [*CONTROL, *log]),
        )
        for port, name, messages in asked_of:
            with line(port, name) as asked:
                theirs = decode_response(18, 0, asked.ask(ApiVersionsRequest(), 0).data)[1].api_keys
                yield asked.ask(ApiVersionsRequest(), 4, as_version=ABROAD)
                for message in messages:
                    ours, offered = every_api()[message.api_key].versions, theirs.get(message.api_key)
                    if offered is None:
                        continue  # UnregisterController before Kafka 4.4
                    for version in range(max(ours.min, offered.min), min(ours.max, offered.max) + 1):
                        yield asked.ask(message, version)
        trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        for version in (1, 2):
            with line(cluster.nodes[1].ports[CLIENT], "broker", trust) as asked:
                yield asked.ask(SaslHandshakeRequest("PLAIN"), 1)
            for password in (USERS["alice"], "wrong"):
                with line(cluster.nodes[1].ports[CLIENT], "broker", trust) as asked:
                    yield asked.ask(SaslHandshakeRequest(KIND), 1)
                    yield from proof(asked, password, version)


def proof(asked: Line, password: str, version: int) -> Iterator[Reply]:
    """SCRAM, step by step."""
    steps = sasl.exchange(Sasl(KIND, "alice", password), None)
    to_send = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            reply = asked.ask(SaslAuthenticateRequest(to_send), version)
            yield reply
            answer = decode_response(reply.api, version, reply.data)[1]
            if answer.error_code:
                return
            to_send = steps.send(answer.auth_bytes)


def main() -> None:
    REPLIES.mkdir(exist_ok=True)
    for release in (OLD, MIDDLE, RECENT, NEWEST):
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                {"api": one.api, "version": one.version, "of": one.of, "reply": one.data.hex()}
                for one in answers(release, Path(folder))
            ]
        with gzip.GzipFile(REPLIES / f"{release}.jsonl.gz", "wb", mtime=0) as file:
            file.writelines(json.dumps(row).encode() + b"\n" for row in rows)
        print(release, len(rows), "replies")


if __name__ == "__main__":
    main()
