"""After errors of an API server, or an outage, the operator continues by itself, as the same process.

No Kafka runs here. It suffices that a reconciliation writes the condition of a new generation.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection

import pytest

from tests.e2e.kubernetes.resources import NS, Resources, delete_all
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, ControlPlane
from tests.e2e.rig.kubernetes.operator import ACCOUNT, NAMESPACE, USER, Operator
from tests.e2e.rig.process import free_port, wait_until

JSON = "application/json"
FLOW = "flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
def resources(operator: Operator) -> Iterator[Resources]:
    """Resources, of which one was reconciled, and is reconciled every ten seconds."""
    made = Resources(operator.plane)
    reconcile_anew(made, "orders")
    yield made
    delete_all(operator.plane)


def reconcile_anew(resources: Resources, name: str) -> None:
    """Apply a new generation of the resource, with another address each time, and wait for its condition: no Kafka
    listens there.
    """
    cluster = {"bootstrapServers": f"{LOOPBACK}:{free_port()}"}
    resources.apply(name, {"share.version": 1}, cluster=cluster)
    resources.until(name, "Reachable", "BootstrapUnreachable")


def assert_continues(resources: Resources, operator: Operator) -> None:
    """The operator reconciles a resource that it knew and a new one, without a restart."""
    reconcile_anew(resources, "orders")
    reconcile_anew(resources, "new")
    assert operator.alive
    assert operator.asked("/healthz")[0] == 200


@contextmanager
def one_seat(plane: ControlPlane) -> Iterator[None]:
    """The server's own flow control allows the operator's account one request at a time, and one that never ends takes
    this place. So the server answers 429 to all others.
    """
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
    """The answers have a header Retry-After."""
    plane, mark = operator.plane, operator.plane.audit.mark()
    with one_seat(plane):
        plane.audit.wait_for(lambda rows: len(rows) >= 3, mark, user=USER, code=429, verb="get")
    assert "429 Too Many Requests" in operator.log
    assert_continues(resources, operator)


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
    assert_continues(resources, operator)


def test_a_watch_whose_version_has_expired_is_started_with_a_new_list(resources: Resources, operator: Operator) -> None:
    """A restarted server answers 410 for a version that it no longer knows."""
    plane, mark = operator.plane, operator.plane.audit.mark()
    plane.kubectl("create", "configmap", "moves-on", "-n", "default")  # a version newer than that of our resources
    plane.api_server.kill()
    plane.api_server.start()
    plane.audit.wait_for(lambda rows: rows, mark, user=USER, resource="kafkafeatures", verb="list", code=200)
    assert_continues(resources, operator)
