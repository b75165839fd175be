"""A control plane for the session, and an operator for each file; what more of them share has a folder of its own."""

from __future__ import annotations

import json
import ssl
from collections.abc import Generator, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from urllib.parse import urlencode

import pytest

from tests.e2e.kubernetes.resources import install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.simulated.conformance import NAMESPACE, Ask
from tests.simulated.requests import Reply, Request


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Without a node: no pod ever runs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> Generator[None]:
    """What a test killed or froze runs again, also after a failure: others share it."""
    try:
        for name in ("control_plane", "operator"):
            if isinstance(found := item.funcargs.get(name), ControlPlane | Operator):
                found.heal()
    finally:
        yield


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator as a process, with what `helm install` makes around it; a new one for each module."""
    install(control_plane)
    with Operator(control_plane, tmp_path_factory.mktemp("operator")) as running:
        yield running


@pytest.fixture
def ask(control_plane: ControlPlane) -> Iterator[Ask]:
    """Any request over HTTPS, with the rights of an administrator; resources that it makes are deleted."""
    install(control_plane)
    pki = control_plane.authority
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(pki.folder / "admin.crt", pki.folder / "admin.key")

    def asked(request: Request) -> Reply:
        with closing(HTTPSConnection(control_plane.address, control_plane.port, context=context, timeout=60)) as to:
            body = None if request.body is None else json.dumps(request.body)
            path = f"{request.path}?{urlencode(request.query)}"
            patch = "merge-patch+" if request.method == "PATCH" else ""
            to.request(request.method, path, body, {"Content-Type": f"application/{patch}json"})
            answer = to.getresponse()
            text = answer.read().decode()
        many = "watch" in request.query and answer.status == 200
        return Reply(answer.status, [json.loads(line) for line in text.splitlines()] if many else json.loads(text))

    yield asked
    control_plane.kubectl("delete", "kff,poddisruptionbudgets", "--all", "-n", NAMESPACE, "--timeout=30s")
    control_plane.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--grace-period=0", "--force", "--timeout=30s")
