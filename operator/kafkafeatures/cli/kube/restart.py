"""`kafkafeatures restart NAME`: have the nodes of a resource restarted without a new image.

Written as an annotation of the pod templates, as `kubectl rollout restart` does it: each StatefulSet gets a new
revision, and the operator restarts its pods under the same rules as for a new image, one plan for all of them. Nothing
is written unless every StatefulSet leaves its pods to the operator (OnDelete): of another one Kubernetes would restart
them itself, at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from kafkafeatures.api.names import RESTART
from kafkafeatures.cli.kube.api import Changed, Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.resource import ROLES, KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.facts.observation import MetadataMode

ATTEMPTS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `restart`."""
    add_resource_flags(parser)
    parser.add_argument("--only", choices=ROLES, help="restart the nodes of these StatefulSets alone")


def run(arguments: argparse.Namespace) -> int:
    """Read everything, then write."""
    roles = (arguments.only,) if arguments.only else ROLES
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        names = _names(resource, roles)
        for name in names:
            _version(kube, resource, name)
        now = datetime.now(UTC).isoformat()
        for name in names:
            _restart(kube, resource, name, now)
            print(f"{resource}: restart of the pods of {name} requested")
    for why in _held_back(resource):
        print(f"No node is restarted before {why}")
    print(f"To wait for it: kafkafeatures wait {resource.flags} --for rolled")
    return Exit.DONE


def _held_back(resource: KubeResource) -> Iterator[str]:
    if resource.mode != "Apply":
        yield f"spec.mode is Apply; it is {resource.mode}"
    if resource.suspended_in_document:
        yield "spec.suspend is false; it is true"
    if resource.paused:
        yield f"kafkafeatures resume {resource.flags}: the resource is suspended"


def _names(resource: KubeResource, roles: tuple[str, ...]) -> tuple[str, ...]:
    if resource.deleted_at:
        raise CommandFailed(f"{resource} is being deleted", Exit.BLOCKED)
    if resource.driver != "StatefulSet":
        raise CommandFailed(
            f"{resource} has no driver that restarts pods (spec.workload.driver is {resource.driver or None}); restart "
            "its nodes with what runs them",
            Exit.BLOCKED,
        )
    mode = resource.status.metadata_mode
    if mode != MetadataMode.KRAFT and (mode or resource.wants_migration):
        raise CommandFailed(
            f"{resource} is not in KRaft mode (metadata mode {mode or 'not known yet'}), so its nodes are restarted by "
            "the steps of a migration or of an inter.broker.protocol.version alone",
            Exit.BLOCKED,
        )
    names = resource.stateful_sets_of(roles)
    if not names:
        raise CommandFailed(f"{resource} names no StatefulSet under {roles[0]}; leave out --only", Exit.BLOCKED)
    return names


def _restart(kube: Kube, resource: KubeResource, name: str, now: str) -> None:
    """The status of a StatefulSet is written to all the time, so it is read, and examined, anew for each attempt."""
    for left in reversed(range(ATTEMPTS)):
        try:
            kube.annotate_template(name, {RESTART: now}, _version(kube, resource, name))
            return
        except Changed:
            if not left:
                raise


def _version(kube: Kube, resource: KubeResource, name: str) -> str:
    """The resourceVersion of a StatefulSet that leaves its pods to the operator."""
    found = kube.stateful_set(name)
    if found is None:
        raise CommandFailed(
            f"StatefulSet {kube.namespace}/{name}, which {resource} names, does not exist", Exit.BLOCKED
        )
    strategy = (found["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy != "OnDelete":
        what = f"StatefulSet {kube.namespace}/{name} has the update strategy {strategy}"
        why = "with which Kubernetes would restart its pods itself, without waiting for partitions"
        raise CommandFailed(f"{what}, {why}; set spec.updateStrategy.type to OnDelete", Exit.BLOCKED)
    return str(found["metadata"]["resourceVersion"])
