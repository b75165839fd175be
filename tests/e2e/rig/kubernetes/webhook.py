"""An admission webhook in the test process: asked before the API server stores or does what was requested.

    with webhook(plane, look, user=OPERATOR, resources=("kafkafeatures/status", "pods/eviction")):
        ...

`look` gets each request (of an AdmissionReview) in a thread of its own while the client waits for the answer. It is
allowed, as this is for what a test does meanwhile, unless `denial` has a message.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from tests.e2e.rig.kubernetes.cluster import ControlPlane

NAME = "webhook.rig.example.com"


@contextmanager
def webhook(
    plane: ControlPlane,
    look: Callable[[dict[str, Any]], object],
    *,
    user: str,
    resources: tuple[str, ...],
    denial: str = "",
) -> Iterator[None]:
    """See the prologue; requests of other users are not looked at. After the end, `look` is no longer called.

    denial: message of the answer 500 to each request; empty: all are allowed.
    """
    looking, over = Lock(), False

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with looking:
                if not over:
                    look(review["request"])
            review["response"] = {"uid": review.pop("request")["uid"], "allowed": not denial}
            if denial:
                review["response"]["status"] = {"code": 500, "message": denial}
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the base class has it
            pass

    with ThreadingHTTPServer((plane.address, 0), Handler) as server:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*plane.authority.issue("webhook", plane.address))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        plane.apply(_configuration(plane, server.server_port, user, resources))
        try:
            yield
        finally:
            with looking:
                over = True
            plane.kubectl("delete", "validatingwebhookconfiguration", NAME)
            server.shutdown()


def _configuration(plane: ControlPlane, port: int, user: str, resources: tuple[str, ...]) -> dict[str, Any]:
    where = {"url": f"https://{plane.address}:{port}/", "caBundle": b64encode(plane.authority.ca.read_bytes()).decode()}
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": list(resources)}
    hook = {
        "name": NAME,
        "clientConfig": where,
        "rules": [rule],
        "matchConditions": [{"name": "user", "expression": f"request.userInfo.username == '{user}'"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [hook],
    }
