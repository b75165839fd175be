"""Requests that wait on pods for another operator, and which of them this operator made.

Called by drivers with `Driver.asked`. The API server notes in `managedFields` which client set a field. It needs no
mark of ours on the pod, and it never takes the request of a person for ours: to set a value that is there already
changes no manager (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from kafkafeatures.kube.api import MANAGER, WorkloadsApi
from kafkafeatures.kube.workloads.pods import has_request


class RequestedPod(NamedTuple):
    """A pod whose restart was requested, named as in a `RestartNode`."""

    pod: str
    pod_uid: str


async def own_requests(api: WorkloadsApi, namespace: str, labels: str, annotation: str) -> list[RequestedPod]:
    """Pods with a request (an annotation) that this operator has set. `labels`: label selector. Raises KubeError."""
    async with aclosing(api.listed(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": labels})) as listed:
        return [
            RequestedPod(str(metadata["name"]), str(metadata["uid"]))
            async for metadata in (raw["metadata"] async for raw in listed)
            if has_request(metadata, annotation) and _managers(metadata, annotation) == {MANAGER}
        ]


def _managers(metadata: Mapping[str, Any], annotation: str) -> set[object]:
    """Field managers that have set the annotation."""
    return {
        entry.get("manager")
        for entry in metadata.get("managedFields") or ()
        if f"f:{annotation}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    }
