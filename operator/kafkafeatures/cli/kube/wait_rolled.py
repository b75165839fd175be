"""`wait --for rolled`: judges whether every pod has the current revision of its set, and the roll is complete.

A changed image does not change the generation of the KafkaFeatures resource, so its status may be about the previous
image. So the sets of pods are read after the status, which counts only if it names their revisions. Pure; called by
`cli/kube/wait.py`.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.status import StatusCondition, WorkloadStatus
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.roll.drivers import NOBODY, Driver, driver_in_document
from kafkafeatures.core.words import counted
from kafkafeatures.kube.workloads.adapters import adapter_of
from kafkafeatures.kube.workloads.templates import ObjectReader, Templates


def driver_of(resource: KubeResource) -> Driver | None:
    """The driver of the resource; None if this release does not know it."""
    return driver_in_document(resource.spec)


def templates_of(objects: ObjectReader, resource: KubeResource) -> Templates:
    """The sets of pods of the document; none if its driver reads no pods."""
    driver = driver_of(resource)
    if driver is None or not driver.reads_pods:
        return {}
    return adapter_of(driver).templates(objects, driver, resource.spec)


def status_is_about(resource: KubeResource, templates: Templates) -> bool:
    """True if the status has the update revisions of these pod templates, which are the current ones."""
    return all(
        template is not None and template.revision and _workload(resource, name).update_revision == template.revision
        for name, template in templates.items()
    )


def halt_of(templates: Templates) -> Blocker | None:
    """What keeps another operator from restarting the pods until a person acts; None for nothing."""
    return next((template.halt for template in templates.values() if template and template.halt), None)


def is_over(halt: StatusCondition, resource: KubeResource, templates: Templates) -> bool:
    """True if a halt in the status is over by these templates, which are read after it, such as a pause."""
    return bool(templates) and is_by_another(halt, resource) and halt_of(templates) is None


def is_by_another(halt: StatusCondition, resource: KubeResource) -> bool:
    """True if a person keeps another operator from restarting pods, as its resources show."""
    driver = driver_of(resource)
    return driver is not None and driver.halt is not None and halt.reason == driver.halt


def why_not_rolled(resource: KubeResource, templates: Templates) -> str:
    """Text on what is not rolled yet, in one line; empty if everything is."""
    driver = driver_of(resource) or NOBODY
    for name, template in templates.items():
        if template is None:
            return f"{driver.kind} {resource.metadata['namespace']}/{name} not found"
        if not template.revision:
            text = f"{driver.asked or 'Kubernetes'} has not processed the change of {driver.kind} {name} yet"
            return template.pending or text
        workload = _workload(resource, name)
        if (workload.update_revision, workload.total) != (template.revision, template.replicas):
            return f"the operator has not seen revision {template.revision} of {driver.kind} {name} yet"
        if workload.updated != template.replicas:
            return f"{workload.updated} of {template.replicas} pods of {name} at revision {template.revision}"
    condition = resource.status.condition(Condition.NODES_ROLLED)
    if condition is None:
        return "not reconciled yet"
    if not resource.is_current(condition):
        return f"generation {resource.generation} is not reconciled yet"
    if condition.status != "True":
        return f"{condition.reason}: {condition.message}"
    pending = (template.pending or template.halt for template in templates.values() if template)
    return next((str(cause) for cause in pending if cause), "")


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
