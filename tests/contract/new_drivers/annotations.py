"""Restarts a pod by an annotation that another operator acts upon. It evicts nothing."""

from __future__ import annotations

from collections.abc import Awaitable

from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.workloads import stateful_sets
from kafkafeatures.kube.workloads.rights import KubernetesRight

RIGHTS = (*(one for one in stateful_sets.RIGHTS if one.verb != "create"), KubernetesRight("", "pods", "patch"))
ANNOTATION = "example.com/restart"


class Annotations(stateful_sets.StatefulSets):
    """Reads what the driver StatefulSet reads."""

    def request(self, step: RestartNode) -> Awaitable[None]:
        body = {"metadata": {"uid": step.pod_uid, "annotations": {ANNOTATION: "true"}}}
        return self._api.send("PATCH", f"/api/v1/namespaces/{self._namespace}/pods/{step.pod}", body)


open_port, templates = Annotations, stateful_sets.templates
