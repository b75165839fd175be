"""Follows the rolls of another operator, which restarts a pod on request by an annotation."""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import Outcome
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.workloads import stateful_sets
from kafkafeatures.kube.workloads.answers import outcome_of
from kafkafeatures.kube.workloads.requests import RequestedPod, own_requests
from tests.contract.new_drivers.annotations import ANNOTATION, Annotations
from tests.contract.new_drivers.annotations import RIGHTS as PATCH_RIGHTS


class Followed(Annotations):
    """Reads what the driver StatefulSet reads, and the requests on the pods."""

    annotation = ANNOTATION

    async def _read(self) -> WorkloadsReading:
        reading = await super()._read()
        sets = tuple(replace(stateful_set, restarts_outdated=False) for stateful_set in reading.stateful_sets)
        return replace(reading, stateful_sets=sets)


async def requests(api: WorkloadsApi, namespace: str) -> list[RequestedPod]:
    return await own_requests(api, namespace, "", ANNOTATION)


async def withdraw(api: WorkloadsApi, namespace: str, step: RestartNode | RequestedPod) -> Outcome:
    body = {"metadata": {"uid": step.pod_uid, "annotations": {ANNOTATION: None}}}
    return await outcome_of(api.send("PATCH", f"/api/v1/namespaces/{namespace}/pods/{step.pod}", body), "")


RIGHTS, open_port, templates = PATCH_RIGHTS, Followed, stateful_sets.templates
