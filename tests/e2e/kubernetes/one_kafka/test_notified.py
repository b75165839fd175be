"""The operator, as a process on a real API server and real Kafka, tells a real receiver of a plan that waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.one_kafka.conftest import SHARE, STREAMS
from tests.e2e.kubernetes.resources import Resources, install
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import wait_until

SECRET = "T0-B0-a-secret-of-the-receiver"  # of no one


@dataclass
class Receiver:
    """A receiver that answers with `code`; not at all until `answers` is set."""

    code: int = 200
    answers: threading.Event = field(default_factory=threading.Event)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def names(self) -> list[str]:
        return [body["name"] for body in self.bodies]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            receiver.answers.wait()
            self.send_response(receiver.code)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "url").write_text(f"http://127.0.0.1:{server.server_port}/{SECRET}")
        yield receiver
        receiver.answers.set()
        server.shutdown()


@pytest.fixture
def operator(control_plane: ControlPlane, receiver: Receiver, tmp_path: Path) -> Iterator[Operator]:
    install(control_plane)
    with Operator(control_plane, tmp_path, flags=("--notify-url-file", str(tmp_path / "url"))) as running:
        yield running


def notified(resources: Resources, name: str) -> list[str]:
    return [delivery["key"].partition("-")[0] for delivery in resources.status(name).get("notified", [])]


def test_a_waiting_plan_is_told_once_although_the_receiver_failed_and_the_operator_restarted(
    resources: Resources, operator: Operator, receiver: Receiver
) -> None:
    receiver.code = 503
    resources.apply("told", {SHARE: 1}, approval={"policy": "Always"})
    wait_until(
        "the receiver failed", lambda: operator.metric("kafkafeatures_notifications_total", result="failed") >= 1
    )
    assert notified(resources, "told") == []
    receiver.code = 200
    wait_until("the delivery is noted", lambda: notified(resources, "told") == ["ApprovalRequired"], 60)
    first, last = receiver.bodies[0], receiver.bodies[-1]
    assert first == last
    assert (last["event"], last["subject"]) == ("ApprovalRequired", resources.status("told")["plan"]["hash"])
    told = len(receiver.bodies)
    operator.kill()
    operator.start()
    resources.apply("next", {STREAMS: 1}, approval={"policy": "Always"})
    wait_until("the next one is told", lambda: "next" in receiver.names()[told:], 60)
    wait_until("each was reconciled", lambda: operator.metric("kafkafeatures_reconciliations_total") >= 2, 60)
    assert "told" not in receiver.names()[told:]
    assert SECRET not in (operator.folder / "log").read_text()


def test_a_receiver_that_does_not_answer_delays_no_level(
    resources: Resources, receiver: Receiver, kafka: Cluster
) -> None:
    receiver.answers.clear()
    resources.apply("waits", {SHARE: 1}, approval={"policy": "Always"})
    wait_until("the receiver is asked", lambda: receiver.bodies)
    resources.apply("waits", {SHARE: 1}, approval={"policy": "Never"})
    resources.wait("waits", "Ready")
    assert notified(resources, "waits") == []
