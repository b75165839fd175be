"""The driver Pods: it reads the pods that a label selector matches, and by what they show it follows the rolls of any
other operator. It changes nothing.

Imported by its name in `adapters.py`, for a resource whose document names a selector. It judges nothing, as
`core/roll/` does that. Operators without a driver of their own show the version of a pod in three ways, by their
sources:

- the label `controller-revision-hash`: Kubernetes for StatefulSets, such as those of Stackable, and KubeBlocks
  (`buildInstancePodByTemplate` of pkg/controller/instanceset/instance_util.go);
- the image of Kafka's container: all of them, and nothing else if KubeBlocks updates a pod in place
  (`filterInPlaceFields` of in_place_update_util.go);
- an annotation that their users change: Koperator, which has none of its own that all pods share (`brokerAnnotations`,
  and `handleRollingUpgrade` of pkg/resources/kafka/kafka.go).

The wanted version is in resources that differ from operator to operator, so all pods of one owner are to have that of
the newest of them. A revision or an image says nothing about the pods of another owner, but an annotation that the
document names is to be the same on all pods, and so is the release of Kafka where it is known. So a roll is seen once
its first pod is replaced; earlier only if the document names the version that the annotation should have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import NotSent, Outcome
from kafkafeatures.core.facts.binaries import release_of
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.ports import Withheld
from kafkafeatures.core.roll.drivers import PODS, Driver
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.workloads.adapters import Rival
from kafkafeatures.kube.workloads.answers import listed_up_to, reading_of
from kafkafeatures.kube.workloads.pods import container_of, pod_of
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.templates import ObjectReader, Template, Templates

RIGHTS = (KubernetesRight("", "pods", "list"),)
REVISION = "controller-revision-hash"
"""Label of a pod with the revision of its template."""
SHARE_A_TEMPLATE = ("StatefulSet", "InstanceSet")
"""Kinds of owners whose pods have the same revision after a roll. An `Instance` of KubeBlocks owns a single pod, which
can be compared with no other (`buildInstancePod` of pkg/controller/instance/utils.go).
"""
KAFKA = Rollout().container
"""Name of Kafka's container in the pods of all operators that are known to need this driver."""
MOST_PODS = 2_000
"""Most pods of one cluster that are read. A selector that matches more is a mistake."""
REMEDY = "name the namespace in the chart's value drivers.pods, or grant the rights of docs/how-to/install.md"
ONLY_FOLLOWS = NotSent(f"driver {PODS.name} restarts no pod")

Json = Mapping[str, Any]


class FollowedPods:
    """`WorkloadPort` for the pods that the selector of a document matches. Another resource that restarts them is no
    rival: its restarts are followed as any others.
    """

    def __init__(
        self,
        api: WorkloadsApi,
        namespace: str,
        rollout: Rollout,
        clock: Callable[[], datetime],
        rival: Rival = lambda name: "",
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._rollout = rollout
        self._clock = clock

    async def read(self) -> WorkloadsReading | Failure:
        return await reading_of(self._read(), self._namespace, REMEDY)

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        return ONLY_FOLLOWS

    async def _read(self) -> WorkloadsReading | Failure:
        at, rollout = self._clock(), self._rollout
        path, query = f"/api/v1/namespaces/{self._namespace}/pods", {"labelSelector": rollout.selector}
        pods = await listed_up_to(MOST_PODS, "pods of this selector", self._api, path, query)
        at = min(at, self._api.answered_at or at)  # see `WorkloadsReading.at`
        unknown = _why_unknown(pods, rollout)
        if unknown is not None:
            text, remedy = unknown
            subject = f"selector {rollout.selector} in namespace {self._namespace}"
            return Failure(FailureKind.REJECTED, subject, text, remedy)
        return WorkloadsReading(at, tuple(_sets_of(pods, rollout)), namespace=self._namespace)


def templates(objects: ObjectReader, driver: Driver, spec: Mapping[str, Any]) -> Templates:
    """The pods of each owner, and the version to which they are rolled. Without any pod, or while versions are not
    known, the only entry has no revision. No entry where the document has no selector.
    """
    fields = {name: str(value) for name, value in driver.place_in(spec).items() if value}
    rollout = Rollout(
        selector=fields.get("selector", ""),
        annotation=fields.get("versionAnnotation", ""),
        version=fields.get("version", ""),
        container=fields.get("container", KAFKA),
    )
    if not rollout.selector:
        return {}
    pods = list(objects.objects_of(("pods", ""), "v1", rollout.selector))
    unknown = _why_unknown(pods, rollout)
    if unknown is not None:
        return {rollout.selector: Template("", 0, f"{unknown[0]} (selector {rollout.selector}); {unknown[1]}")}
    return {each.name: Template(each.update_revision, each.replicas) for each in _sets_of(pods, rollout)}


def _why_unknown(pods: Sequence[Json], rollout: Rollout) -> tuple[str, str] | None:
    """Message and remedy where these pods do not show to which version they are rolled; None where they do. A pod that
    lacks the annotation is older than it, unless it is the newest.
    """
    if not pods:
        return "no pod matches it", f"correct {PODS.key}.selector, or bring the pods back"
    for raw in pods:
        name, owner = raw["metadata"]["name"], _owner(raw)
        if not owner:
            return f"pod {name} has no owner that would create it again", f"correct {PODS.key}.selector"
        if rollout.container != KAFKA and container_of(raw["spec"], KAFKA):
            text = f"pod {name} has a container {KAFKA}, and the document names its container {rollout.container}"
            return text, f"correct {PODS.key}.container: an image that Kafka does not run from shows none of its rolls"
        if rollout.annotation:
            continue
        remedy = f"name an annotation that changes with each roll in {PODS.key}.versionAnnotation"
        if not _label(raw):
            return f"pod {name} has no label {REVISION}", remedy
        if owner["kind"] not in SHARE_A_TEMPLATE:
            text = (
                f"pod {name} is of {owner['kind']} {owner['name']}, so its {REVISION} may differ from that of every pod"
            )
            return text, remedy
    for owner_name, of_owner in _by_owner(pods).items():
        if len(kinds := sorted({str(_owner(raw)["kind"]) for raw in of_owner})) > 1:
            text = f"it matches pods of several owners with the name {owner_name}: {' and '.join(kinds)}"
            return text, f"narrow {PODS.key}.selector to the pods of one of them"
        newest = _newest(of_owner)
        if rollout.annotation and not _annotation(newest, rollout):
            text = f"pod {newest['metadata']['name']}, the newest of its owner, has no annotation {rollout.annotation}"
            return text, f"correct {PODS.key}.versionAnnotation, or set the annotation in the resource of the cluster"
    return None


def _by_owner(pods: Iterable[Json]) -> dict[str, list[Json]]:
    """The pods by the name of their owner, in the order of these names."""
    owned: dict[str, list[Json]] = {}
    for raw in pods:
        owned.setdefault(str(_owner(raw)["name"]), []).append(raw)
    return dict(sorted(owned.items()))


def _owner(raw: Json) -> Json:
    """The controller that created the pod, and does so again; empty for none."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _newest(pods: Sequence[Json]) -> Json:
    """The pod that was created last. It may be of an older template, if it was replaced during a roll; then the others
    differ from it.
    """
    return max(pods, key=lambda raw: (raw["metadata"]["creationTimestamp"], raw["metadata"]["name"]))


def _sets_of(pods: Sequence[Json], rollout: Rollout) -> Iterator[StatefulSet]:
    """The pods of each owner, in the order of their names. `pods`: at least one."""
    newest = _newest(pods)
    version, release = rollout.version or _annotation(newest, rollout), _release(newest, rollout)
    return (_set_of(of_owner, rollout, version, release) for of_owner in _by_owner(pods).values())


def _set_of(pods: Sequence[Json], rollout: Rollout, version: str, release: str) -> StatefulSet:
    """The pods of one owner. How many there should be is not known, nor which role they have.

    version, release: value of the annotation, and release of Kafka, that the pods of all owners are to have; empty for
        none, and where it is not known.
    """
    newest, owner = _newest(pods), _owner(pods[0])
    own_release = _release(newest, rollout)
    wanted = (_label(newest), version, _image(newest, rollout), (release or own_release) if own_release else "")
    made = (_pod(raw, str(owner["name"]), rollout) for raw in pods)
    return StatefulSet(
        name=str(owner["name"]),
        uid=str(owner["uid"]),
        role="brokers",
        replicas=len(pods),
        update_revision=_hash(*wanted),
        update_strategy="",
        image=_image(newest, rollout),
        release=own_release,
        pods=tuple(sorted(made, key=lambda pod: pod.name)),
        kind=str(owner["kind"]),
        restarts_outdated=PODS.restarts_outdated,
    )


def _pod(raw: Json, owner: str, rollout: Rollout) -> Pod:
    """A pod. Nobody's request to restart it counts."""
    revision, release = _revision(raw, rollout), _release(raw, rollout)
    return replace(pod_of(raw, owner, rollout.container), revision=revision, release=release, restart_requested=False)


def _revision(raw: Json, rollout: Rollout) -> str:
    return _hash(_label(raw), _annotation(raw, rollout), _image(raw, rollout), _release(raw, rollout))


def _hash(*shown: str) -> str:
    """Hash of all by which a pod shows its version."""
    return hashlib.sha256("\n".join(shown).encode()).hexdigest()[:10]


def _label(raw: Json) -> str:
    return str((raw["metadata"].get("labels") or {}).get(REVISION) or "")


def _annotation(raw: Json, rollout: Rollout) -> str:
    return str((raw["metadata"].get("annotations") or {}).get(rollout.annotation) or "")


def _image(raw: Json, rollout: Rollout) -> str:
    return str(container_of(raw["spec"], rollout.container).get("image") or "")


def _release(raw: Json, rollout: Rollout) -> str:
    metadata = raw["metadata"]
    return release_of(metadata.get("labels") or {}, metadata.get("annotations") or {}, _image(raw, rollout))


open_port = FollowedPods  # the function of this name that `Adapter` of `adapters.py` asks of a driver's module
