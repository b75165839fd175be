"""The rig itself: a real API server that answers, has an audit log, refuses requests without rights, and can be killed
or frozen.
"""

from __future__ import annotations

import pytest

from tests.e2e.rig.kubernetes.binaries import KUBERNETES
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"kept": "yes"}}


def config_map(name: str) -> dict[str, object]:
    return {**MAP, "metadata": {"name": name, "namespace": "default"}}


def test_the_api_server_has_the_version_of_the_tests(control_plane: ControlPlane) -> None:
    assert f"Server Version: v{KUBERNETES}" in control_plane.kubectl("version")


def test_the_audit_log_has_the_user_the_request_and_the_answer(control_plane: ControlPlane) -> None:
    mark = control_plane.audit.mark()
    control_plane.apply(config_map("written"))
    with pytest.raises(Refused, match="NotFound"):
        control_plane.get("configmap", "missing")
    wanted = {("create", "written", 201), ("get", "missing", 404)}
    rows = control_plane.audit.wait_for(
        lambda rows: wanted <= {(row.verb, row.name, row.code) for row in rows},
        mark,
        resource="configmaps",
        user="admin",
    )
    assert all(row.at <= row.answered for row in rows)


def test_a_service_account_has_only_the_rights_that_were_granted(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "serviceaccount", "reader")
    as_reader = control_plane.kubeconfig_of("default", "reader")
    with pytest.raises(Refused, match="Forbidden"):
        control_plane.kubectl("get", "configmaps", kubeconfig=as_reader)
    control_plane.kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps")
    control_plane.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    control_plane.kubectl("get", "configmaps", kubeconfig=as_reader)
    user = "system:serviceaccount:default:reader"
    rows = control_plane.audit.wait_for(lambda rows: len(rows) == 2, resource="configmaps", user=user)
    assert [row.code for row in rows] == [403, 200]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_restarted_api_server_has_its_objects(control_plane: ControlPlane, end: str) -> None:
    control_plane.apply(config_map(f"before-{end}"))
    getattr(control_plane.api_server, end)()
    assert not control_plane.ready()
    with pytest.raises(Refused, match=r"connection refused|did you specify the right host"):
        control_plane.get("configmaps")
    control_plane.api_server.start()
    assert control_plane.get("configmap", f"before-{end}")["data"] == MAP["data"]
    control_plane.apply(config_map(f"after-{end}"))
    control_plane.audit.wait_for(lambda rows: rows, name=f"after-{end}", verb="create", code=201)
    control_plane.kubectl("create", "namespace", f"after-{end}")
    account = f"/api/v1/namespaces/after-{end}/serviceaccounts/default"
    wait_until("the controllers work again", lambda: control_plane.read(account))


def test_a_frozen_api_server_accepts_connections_and_does_not_answer(control_plane: ControlPlane) -> None:
    control_plane.api_server.freeze()
    try:
        with pytest.raises(Refused, match=r"Timeout|deadline"):
            control_plane.kubectl("get", "configmaps", "--request-timeout=1s")
    finally:
        control_plane.api_server.thaw()
    control_plane.api_server.wait_ready()
    control_plane.get("configmaps")
