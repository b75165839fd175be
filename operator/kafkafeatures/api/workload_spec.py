"""The part of a spec that says what restarts the nodes, and where they run.

The types belong to those of `api/spec.py`. The CRD has the meaning of each field.
"""

from typing import Annotated

from msgspec import Struct

from kafkafeatures.api.schema import AtMost, Text
from kafkafeatures.api.texts import AnnotationName, ContainerName, PodSelector, StatefulSetName


class StatefulSetSpec(Struct, frozen=True, kw_only=True):
    """StatefulSets of the nodes, in the namespace of the resource. Combined nodes are listed under `brokers`.

    container: name of the container that runs Kafka.
    """

    brokers: Annotated[tuple[StatefulSetName, ...], AtMost(32, least=1)]
    controllers: Annotated[tuple[StatefulSetName, ...], AtMost(8)] = ()
    container: ContainerName = "kafka"

    def __post_init__(self) -> None:
        for name, items in (("brokers", self.brokers), ("controllers", self.controllers)):
            if len(set(items)) < len(items):
                raise ValueError(f"{name}: duplicate StatefulSet")


class PodsSpec(Struct, frozen=True, kw_only=True):
    """Pods of all nodes, in the namespace of the resource, which another operator restarts.

    version_annotation: annotation that changes with every roll, the same on all pods; None: the pods have
        `controller-revision-hash`.
    version: value that this annotation should have; None: that of the newest pod.
    container: name of the container that runs Kafka.
    """

    selector: PodSelector
    version_annotation: AnnotationName | None = None
    version: Annotated[str, Text(253, 1)] | None = None
    container: ContainerName = "kafka"

    def __post_init__(self) -> None:
        if self.version is not None and self.version_annotation is None:
            raise ValueError("version needs versionAnnotation")


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """The driver that restarts nodes; `core/roll/drivers.py` has all drivers, and `core/resolve.py` checks the name and
    chooses one where it is absent.
    """

    driver: Annotated[str, Text(64)] | None = None
    stateful_set: StatefulSetSpec | None = None
    pods: PodsSpec | None = None
