"""`kafkafeatures restart NAME`: have the nodes of a resource restarted without a new image.

Written as an annotation of the pod templates, as `kubectl rollout restart` does it: each StatefulSet gets a new
revision, and the operator restarts its pods under the same rules as for a new image, one plan for all of them. Nothing
is written unless every StatefulSet leaves its pods to the operator (OnDelete): of another one Kubernetes would restart
them itself, at once.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from kafkafeatures.api.names import RESTART
from kafkafeatures.api.spec import Desired
from kafkafeatures.cli.kube.api import Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

ROLES = ("controllers", "brokers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `restart`."""
    add_resource_flags(parser)
    parser.add_argument("--only", choices=ROLES, help="restart the nodes of these StatefulSets alone")


def run(arguments: argparse.Namespace) -> int:
    """Read everything, then write: a StatefulSet that was changed in between is not written to."""
    roles = (arguments.only,) if arguments.only else ROLES
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        names = _names(resource, roles)
        versions = {name: _version(kube, resource, name) for name in names}
        now = datetime.now(UTC).isoformat()
        for name, version in versions.items():
            kube.annotate_template(name, {RESTART: now}, version)
            print(f"{resource}: restart of the pods of {name} requested")
    if resource.paused or resource.suspended_in_document:
        print(f"It is suspended: no node is restarted before kafkafeatures resume {resource.flags}")
    elif resource.mode != "Apply":
        print(f"Its mode is {resource.mode}: no node is restarted before it is Apply")
    print(f"To wait for it: kafkafeatures wait {resource.flags} --for rolled")
    return Exit.DONE


def _names(resource: KubeResource, roles: tuple[str, ...]) -> tuple[str, ...]:
    if resource.driver != "StatefulSet":
        raise CommandFailed(
            f"{resource} has no driver that restarts pods (spec.workload.driver is {resource.driver or None}); restart "
            "its nodes with what runs them",
            Exit.BLOCKED,
        )
    phase = resource.status.migration.phase if resource.status.migration is not None else ""
    if resource.wants_migration and phase != Desired.FINALIZED:
        raise CommandFailed(
            f"{resource} migrates from ZooKeeper (phase {phase or 'not known yet'}), which restarts each node when its "
            "turn comes; finish the migration first",
            Exit.BLOCKED,
        )
    names = resource.stateful_sets_of(roles)
    if not names:
        raise CommandFailed(f"{resource} names no StatefulSet under {roles[0]}; leave out --only", Exit.BLOCKED)
    return names


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
