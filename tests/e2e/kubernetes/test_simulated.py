"""The simulated API server of the fast tests is as a real one: the same cases, asked over HTTPS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from urllib.parse import urlencode

import pytest

from tests.e2e.kubernetes.resources import install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.simulated.conformance import CASES, NAMESPACE, Ask
from tests.simulated.requests import Reply, Request


@pytest.fixture
def ask(control_plane: ControlPlane) -> Iterator[Ask]:
    install(control_plane)
    pki = control_plane.authority
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(pki.folder / "admin.crt", pki.folder / "admin.key")

    def asked(request: Request) -> Reply:
        with closing(HTTPSConnection(control_plane.address, control_plane.port, context=context, timeout=60)) as to:
            body = None if request.body is None else json.dumps(request.body)
            path = f"{request.path}?{urlencode(request.query)}"
            to.request(request.method, path, body, {"Content-Type": "application/json"})
            answer = to.getresponse()
            text = answer.read().decode()
        many = "watch" in request.query and answer.status == 200
        return Reply(answer.status, [json.loads(line) for line in text.splitlines()] if many else json.loads(text))

    yield asked
    control_plane.kubectl("delete", "kff,poddisruptionbudgets", "--all", "-n", NAMESPACE, "--timeout=30s")
    control_plane.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--grace-period=0", "--force", "--timeout=30s")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_simulated_server_is_as_a_real_one(case: Callable[[Ask], None], ask: Ask) -> None:
    case(ask)
