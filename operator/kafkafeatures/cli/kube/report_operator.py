"""Collects facts about the operator that wrote a status, for `report`: its Deployment, its pod, and its log.

Only log lines that name the resource are copied: others are about other people's resources. Called by `report.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

if TYPE_CHECKING:
    from kafkafeatures.cli.kube.api import Kube
    from kafkafeatures.cli.kube.resource import KubeResource

T = TypeVar("T")
LINES = 10_000
"""Newest lines of the log that are searched."""
MOST_COPIED = 500
"""Most lines about the resource that are copied, the newest."""


class Attempt(Protocol):
    """Function that returns the result of `read`; if that fails, it records the reason under `subject` and returns
    None.
    """

    def __call__(self, subject: str, read: Callable[[], T]) -> T | None: ...


def operator_of(kube: Kube, resource: KubeResource, tried: Attempt) -> dict[str, Any] | None:
    """The operator that the status names; None if it names none. An operator outside of Kubernetes has no namespace, no
    Deployment and no pod. `tried`: reads each part.
    """
    identity = OperatorIdentity.of(resource.raw)
    if identity is None:
        return None
    document: dict[str, Any] = dict(identity.shape)
    if not identity.namespace:
        return document
    deployment = tried(
        "the operator's Deployment", lambda: _existing(kube.deployment(identity.namespace, identity.name))
    )
    pod = tried("the operator's pod", lambda: _existing(kube.pod(identity.namespace, identity.instance)))
    lines = tried("the operator's log", lambda: kube.log(identity.namespace, identity.instance, LINES)) if pod else None
    if deployment is not None:
        document["deployment"] = {
            "generation": deployment["metadata"].get("generation"),
            **deployment.get("status", {}),
        }
    if pod is not None:
        document["pod"] = {name: pod.get("status", {}).get(name) for name in _POD_FIELDS}
    if lines is not None:
        document["log"] = lines_about(resource.metadata["namespace"], resource.metadata["name"], lines)
    return document


_POD_FIELDS = ("phase", "startTime", "conditions", "containerStatuses")


def _existing(document: dict[str, Any] | None) -> dict[str, Any]:
    """The object. Raises CommandFailed for None, so that the report says that it does not exist."""
    if document is None:
        raise CommandFailed("it does not exist", Exit.USAGE)
    return document


def lines_about(namespace: str, name: str, log: str) -> list[str]:
    """The last lines of an operator's log that are about a resource, in either format (`--log-format` text or json)."""
    return [line for line in log.splitlines() if _is_about(namespace, name, line)][-MOST_COPIED:]


def _is_about(namespace: str, name: str, line: str) -> bool:
    if not line.startswith("{"):
        return f"[{namespace}/{name}]" in line
    try:
        fields = json.loads(line)
    except ValueError:
        return False
    return isinstance(fields, Mapping) and (fields.get("namespace"), fields.get("resource")) == (namespace, name)
