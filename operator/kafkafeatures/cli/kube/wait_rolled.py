"""`wait --for rolled`: judges whether every pod has the current revision of its StatefulSet, and the roll is complete.

A changed image does not change the generation of the KafkaFeatures resource, so its status may be about the previous
image. So the StatefulSets are read after the status, which counts only if it names their revisions. Pure; called by
`cli/kube/wait.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.status import WorkloadStatus
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.core.roll.drivers import NOBODY, Driver, driver_named
from kafkafeatures.core.words import counted


class Template(Struct, frozen=True):
    """Update revision and replicas of a StatefulSet. `revision`: empty while the StatefulSet controller has not seen
    the newest pod template: until then the update revision in the status is that of an older template.
    """

    revision: str
    replicas: int

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Template:
        """The template of a StatefulSet from the API server."""
        status = raw.get("status") or {}
        is_current = int(status.get("observedGeneration") or 0) >= int(raw["metadata"].get("generation") or 0)
        return cls(str(status.get("updateRevision") or "") if is_current else "", int(raw["spec"].get("replicas", 1)))


Templates = Mapping[str, Template | None]
"""The StatefulSets that the document names, by name; None for one that does not exist."""


def driver_of(resource: KubeResource) -> Driver | None:
    """The driver of the resource; None if this release does not know it."""
    return driver_named(resource.driver or NOBODY.name)


def stateful_sets_of(resource: KubeResource) -> tuple[str, ...]:
    """The StatefulSets that the document names; none if its driver does not restart pods."""
    driver = driver_of(resource)
    return resource.stateful_sets if driver is not None and driver.reads_pods else ()


def status_is_about(resource: KubeResource, templates: Templates) -> bool:
    """True if the status has the update revisions of these pod templates, which are the current ones."""
    return all(
        template is not None and template.revision and _workload(resource, name).update_revision == template.revision
        for name, template in templates.items()
    )


def why_not_rolled(resource: KubeResource, templates: Templates) -> str:
    """Text on what is not rolled yet, in one line; empty if everything is."""
    for name, template in templates.items():
        if template is None:
            return f"StatefulSet {resource.metadata['namespace']}/{name} not found"
        if not template.revision:
            return f"Kubernetes has not processed the change of StatefulSet {name} yet"
        workload = _workload(resource, name)
        if (workload.update_revision, workload.total) != (template.revision, template.replicas):
            return f"the operator has not seen revision {template.revision} of StatefulSet {name} yet"
        if workload.updated != template.replicas:
            return f"{workload.updated} of {template.replicas} pods of {name} at revision {template.revision}"
    condition = resource.status.condition(Condition.NODES_ROLLED)
    if condition is None:
        return "not reconciled yet"
    if not resource.is_current(condition):
        return f"generation {resource.generation} is not reconciled yet"
    return "" if condition.status == "True" else f"{condition.reason}: {condition.message}"


def rolled_text(templates: Templates) -> str:
    """Text on the revision that every pod has."""
    parts = (
        f"{counted(template.replicas, 'pod')} of {name} at revision {template.revision}"
        for name, template in templates.items()
        if template
    )
    return ", ".join(parts) or "no node needs a restart"


def _workload(resource: KubeResource, name: str) -> WorkloadStatus:
    """The entry about a StatefulSet in the status; an empty one if there is none."""
    return next(
        (workload for workload in resource.status.workloads if workload.name == name), WorkloadStatus(name=name)
    )
