"""`kafkafeatures restart NAME`: requests a restart of all nodes of a resource, or of one, without a new image.

It writes an annotation into the pod templates, like `kubectl rollout restart`: each StatefulSet gets a new revision,
and the operator restarts the pods by the same rules as for a new image, in one plan. Nothing is written unless every
StatefulSet has the update strategy OnDelete: with another one Kubernetes would restart the pods itself, at once.

For one node it annotates the pod, with the pod's uid as the value: the request ends with that pod, and a copied
annotation on another pod has no effect.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from kafkafeatures.api.names import RESTART, RESTART_POD_UID
from kafkafeatures.api.records import Json
from kafkafeatures.cli.kube.api import STATEFUL_SETS, Changed, Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait_rolled import driver_of, templates_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.facts.observation import MetadataMode
from kafkafeatures.core.roll.drivers import ROLES, Driver

ATTEMPTS = 5
"""Most attempts to annotate a StatefulSet."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `restart`."""
    add_resource_flags(parser)
    selection = parser.add_mutually_exclusive_group()
    selection.add_argument("--only", choices=ROLES, help="restart the nodes of these StatefulSets alone")
    selection.add_argument("--pod", type=resource_name, metavar="POD", help="restart the node of this pod alone")


def run(arguments: argparse.Namespace) -> int:
    """Read and check everything, then write the annotations."""
    roles = (arguments.only,) if arguments.only else ROLES
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        driver = _driver(resource)
        wait_for_pod = ""
        if not arguments.pod and not driver.restarts_outdated:
            text = f"{driver.asked or 'another operator'} rolls the nodes of {resource} itself; name one with --pod"
            raise CommandFailed(text, Exit.BLOCKED)
        names = _names(resource, roles) if driver.restarts_outdated else tuple(templates_of(kube, resource))
        if arguments.pod:
            _restart_one(kube, resource, driver, names, arguments.pod)
            # The revision is the same before and after, so `wait --for rolled` alone would end at once.
            wait_for_pod = f"kubectl wait pod/{arguments.pod} -n {kube.namespace} --for=delete --timeout=1h && "
        else:
            _restart_all(kube, resource, names)
    for condition in _missing_conditions(resource):
        print(f"No node is restarted before {condition}")
    print(f"To wait for it: {wait_for_pod}kafkafeatures wait {resource.flags} --for rolled")
    return Exit.DONE


def _restart_all(kube: Kube, resource: KubeResource, names: tuple[str, ...]) -> None:
    for name in names:  # all are checked before the first is written
        _version(_stateful_set(kube, resource, name), kube.namespace)
    requested_at = datetime.now(UTC).isoformat()
    for name in names:
        _annotate(kube, resource, name, requested_at)
        print(f"{resource}: restart of the pods of {name} requested")


def _restart_one(kube: Kube, resource: KubeResource, driver: Driver, names: tuple[str, ...], name: str) -> None:
    pod = kube.pod(kube.namespace, name)
    if pod is None:
        raise CommandFailed(f"pod {kube.namespace}/{name} does not exist", Exit.USAGE)
    owners = pod["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner["kind"] == driver.kind and owner["name"] in names), None)
    pod_set = _stateful_set(kube, resource, owner["name"]) if owner is not None and driver.restarts_outdated else None
    if owner is None or (pod_set is not None and pod_set["metadata"]["uid"] != owner["uid"]):
        text = f"pod {kube.namespace}/{name} is in no {driver.kind} that {resource} names ({', '.join(names)})"
        raise CommandFailed(text, Exit.BLOCKED)
    if pod_set is not None:
        _version(pod_set, kube.namespace)  # raises for another update strategy than OnDelete
    if pod["metadata"].get("deletionTimestamp"):
        raise CommandFailed(f"pod {kube.namespace}/{name} is being replaced already", Exit.BLOCKED)
    kube.annotate_pod(name, {RESTART_POD_UID: pod["metadata"]["uid"]})
    print(f"{resource}: restart of pod {name} requested")


def _missing_conditions(resource: KubeResource) -> Iterator[str]:
    """Texts on what has to be true before the operator restarts nodes, and is not."""
    if resource.mode != "Apply":
        yield f"spec.mode is Apply; it is {resource.mode}"
    if resource.suspended_in_document:
        yield "spec.suspend is false; it is true"
    if resource.paused:
        yield f"kafkafeatures resume {resource.flags}: the resource is suspended"


def _driver(resource: KubeResource) -> Driver:
    """Driver of the resource. Raises CommandFailed if it restarts no pods."""
    if resource.deleted_at:
        raise CommandFailed(f"{resource} is being deleted", Exit.BLOCKED)
    driver = driver_of(resource)
    if driver is None or not driver.reads_pods or driver.only_follows:
        raise CommandFailed(
            f"{resource} has no driver that restarts pods (spec.workload.driver is {resource.driver or None}); restart "
            "its nodes with what runs them",
            Exit.BLOCKED,
        )
    return driver


def _names(resource: KubeResource, roles: tuple[str, ...]) -> tuple[str, ...]:
    """The StatefulSets of these roles. Raises CommandFailed if the operator would not restart their pods."""
    # While the mode is not known yet, only a document that asks for a migration is refused.
    mode = resource.status.metadata_mode
    if mode != MetadataMode.KRAFT and (mode or resource.wants_migration):
        raise CommandFailed(
            f"{resource} is not in KRaft mode (metadata mode {mode or 'not known yet'}), so its nodes are restarted by "
            "the steps of a migration or of an inter.broker.protocol.version alone",
            Exit.BLOCKED,
        )
    names = resource.stateful_sets_of(roles)
    if not names:
        raise CommandFailed(f"{resource} names no StatefulSet under {roles[0]}; leave out --only", Exit.USAGE)
    return names


def _annotate(kube: Kube, resource: KubeResource, name: str, requested_at: str) -> None:
    """Annotate a StatefulSet. Its status changes often, and with it the resourceVersion, so each attempt reads and
    checks it anew.
    """
    for retries in reversed(range(ATTEMPTS)):
        try:
            version = _version(_stateful_set(kube, resource, name), kube.namespace)
            kube.annotate_template(name, {RESTART: requested_at}, version)
            return
        except Changed:
            if not retries:
                raise


def _stateful_set(kube: Kube, resource: KubeResource, name: str) -> Json:
    """Read a StatefulSet. Raises CommandFailed if it does not exist."""
    stateful_set = kube.object_of(STATEFUL_SETS, "apps/v1", name)
    if stateful_set is None:
        raise CommandFailed(
            f"StatefulSet {kube.namespace}/{name}, which {resource} names, does not exist", Exit.BLOCKED
        )
    return stateful_set


def _version(document: Json, namespace: str) -> str:
    """The resourceVersion of a StatefulSet. Raises CommandFailed unless its update strategy is OnDelete."""
    strategy = (document["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy != "OnDelete":
        problem = f"StatefulSet {namespace}/{document['metadata']['name']} has the update strategy {strategy}"
        consequence = "with which Kubernetes would restart its pods itself, without waiting for partitions"
        raise CommandFailed(f"{problem}, {consequence}; set spec.updateStrategy.type to OnDelete", Exit.BLOCKED)
    return str(document["metadata"]["resourceVersion"])
