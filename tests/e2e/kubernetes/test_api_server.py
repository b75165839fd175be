"""Whatever an API server answers, the operator continues by itself, as the same process.

No Kafka runs here. A reconciliation that writes the condition of a new generation is all that these tests want to see.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection

import pytest

from tests.e2e.kubernetes.resources import NS, Resources
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, ControlPlane
from tests.e2e.rig.kubernetes.operator import ACCOUNT, NAMESPACE, USER, Operator
from tests.e2e.rig.process import free_port, wait_until

JSON = "application/json"
FLOW = "flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
def resources(operator: Operator) -> Iterator[Resources]:
    """With one that was worked on, and that is looked at every ten seconds."""
    made = Resources(operator.plane)
    worked_on(made, "orders")
    yield made
    operator.plane.kubectl("delete", "kff", "--all", "-A", "--timeout=30s")


def worked_on(resources: Resources, name: str) -> None:
    """A new generation of the resource, and its condition: no Kafka listens at its address, which is another one each
    time.
    """
    cluster = {"bootstrapServers": f"{LOOPBACK}:{free_port()}"}
    resources.apply(name, {"share.version": 1}, cluster=cluster)
    resources.until(name, "Reachable", "BootstrapUnreachable")


def works_on(resources: Resources, operator: Operator) -> None:
    """The operator works on with what it knew and on what is new, without a restart."""
    worked_on(resources, "orders")
    worked_on(resources, "new")
    assert operator.alive
    assert operator.asked("/healthz")[0] == 200


@contextmanager
def one_seat(plane: ControlPlane) -> Iterator[None]:
    """The server's own flow control gives the operator's account one seat, and there sits a request without an end."""
    limit = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**limit, "limitResponse": {"type": "Reject"}}}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": NAMESPACE, "name": ACCOUNT}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    flow = {
        "priorityLevelConfiguration": {"name": "one-seat"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    plane.apply(
        {"apiVersion": FLOW, "kind": "PriorityLevelConfiguration", "metadata": {"name": "one-seat"}, "spec": level},
        {"apiVersion": FLOW, "kind": "FlowSchema", "metadata": {"name": "one-seat"}, "spec": flow},
    )
    token = plane.token(NAMESPACE, ACCOUNT)
    context = ssl.create_default_context(cafile=plane.authority.ca)
    try:
        with closing(HTTPSConnection(LOOPBACK, plane.port, context=context)) as seated:
            seated.putrequest("POST", f"/apis/events.k8s.io/v1/namespaces/{NS}/events")
            for header in (("Authorization", f"Bearer {token}"), ("Content-Type", JSON), ("Content-Length", "1000")):
                seated.putheader(*header)
            seated.endheaders()
            yield
    finally:
        plane.kubectl("delete", "flowschema,prioritylevelconfiguration", "one-seat")


def test_the_operator_continues_after_answers_429_of_the_api_server(resources: Resources, operator: Operator) -> None:
    """429 with Retry-After."""
    plane, mark = operator.plane, operator.plane.audit.mark()
    with one_seat(plane):
        plane.audit.wait_for(lambda rows: len(rows) >= 3, mark, user=USER, code=429, verb="get")
    assert "429 Too Many Requests" in operator.log
    works_on(resources, operator)


@pytest.mark.parametrize(
    ("part", "breaks", "mends"),
    [("etcd", "kill", "start"), ("api_server", "freeze", "thaw")],
    ids=["fails: 5xx", "answers nothing: time-outs"],
)
def test_the_operator_is_healthy_during_a_failure_of_the_control_plane_and_reconciles_after_it(
    resources: Resources, operator: Operator, part: str, breaks: str, mends: str
) -> None:
    plane, log = operator.plane, len(operator.log)
    daemon = getattr(plane, part)
    getattr(daemon, breaks)()
    try:
        wait_until("it was told", lambda: "the API server: " in operator.log[log:])
        assert operator.asked("/healthz")[0] == 200
    finally:
        getattr(daemon, mends)()
    wait_until("the API server is well", plane.ready)
    works_on(resources, operator)


def test_a_watch_whose_version_has_expired_is_started_with_a_new_list(resources: Resources, operator: Operator) -> None:
    """410: what a restarted server no longer remembers."""
    plane, mark = operator.plane, operator.plane.audit.mark()
    plane.kubectl("create", "configmap", "moves-on", "-n", "default")  # the version of everything, past that of ours
    plane.api_server.kill()
    plane.api_server.start()
    plane.audit.wait_for(lambda rows: rows, mark, user=USER, resource="kafkafeatures", verb="list", code=200)
    works_on(resources, operator)
