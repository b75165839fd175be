"""Finds out which broker a target of Prometheus is, by its labels, and whether all targets are of one cluster.

Pure. Called by `evidence.py`. What it decides: an id is taken from a label only if Kafka, an operator of Kafka or the
user says that it is one; the number of a pod is not always the id of its broker. Targets of several clusters are
refused, never merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkafeatures.prometheus.api import Labels

BROKER_LABELS = ("broker", "broker_id", "brokerid", "kafka_broker", "kafka_broker_id", "node_id", "kafka_node_id")
"""Labels whose value is the id of a broker, if it is a number."""
_ID = re.compile("[0-9]{1,9}")
_STRIMZI = "strimzi_io_cluster"
_STRIMZI_PODS = ("strimzi_io_pod_name", "kubernetes_pod_name", "pod")
"""Labels with the name of a pod, which Strimzi ends with the id of the broker (`ReconcilerUtils.java`)."""
_CLUSTER = re.compile(r"(?:.*_)?(?:cluster|namespace|environment|env)(?:_id|_name)?|app_kubernetes_io_instance")
"""Labels that differ only between clusters."""


class BrokerLabel(Struct, frozen=True):
    """The label that has the id, as the user names it. `pattern`: a regular expression whose one group is the id;
    empty: the whole value is.
    """

    name: str
    pattern: str = ""


class BrokersNotNamed(Exception):
    """No label shows the id of a broker. `labels`: of one of the targets."""

    def __init__(self, labels: Labels) -> None:
        super().__init__("no label of the brokers shows their ids")
        self.labels = labels


class SeveralClusters(Exception):
    """The targets belong to several clusters. `labels`: those that differ, with their values."""

    def __init__(self, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__("the selector picks brokers of several clusters")
        self.labels = labels


def broker_id(target: Labels, rule: BrokerLabel | None) -> int | None:
    """The id of a target's broker; None if no label shows it."""
    if rule is not None:
        text = target.get(rule.name, "")
        match = re.fullmatch(rule.pattern or "(.*)", text)
        return _id(match[1] or "") if match else None
    for label in BROKER_LABELS:
        if (number := _id(target.get(label, ""))) is not None:
            return number
    if cluster := target.get(_STRIMZI):
        for label in _STRIMZI_PODS:
            if match := re.fullmatch(re.escape(cluster) + "-(?:.+-)?([0-9]{1,9})", target.get(label, "")):
                return int(match[1])
    return None


def refuse_several(targets: Iterable[Labels]) -> None:
    """Raise SeveralClusters if a label that names clusters has several values."""
    values = values_of(targets)
    if labels := {name: its_values for name, its_values in values.items() if _CLUSTER.fullmatch(name)}:
        raise SeveralClusters(labels)


def values_of(targets: Iterable[Labels]) -> Mapping[str, Sequence[str]]:
    """The values of each label with which targets differ. Targets without the label do not count."""
    values: dict[str, set[str]] = {}
    for target in targets:
        for name, value in target.items():
            values.setdefault(name, set()).add(value)
    return {name: sorted(its_values) for name, its_values in sorted(values.items()) if len(its_values) > 1}


def _id(text: str) -> int | None:
    return int(text) if _ID.fullmatch(text) else None
