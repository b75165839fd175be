"""Rights in Kafka: which one was missing, and the line that grants it.

Called wherever a node answers CLUSTER_AUTHORIZATION_FAILED. A controller's own text contains a Java object with its
memory address ("Request Request(processor=0, ...) needs ALTER permission."), which differs each time, so it is replaced
by a stable one. `KafkaApis.scala` and `ControllerApis.scala` say which request needs which right.
"""

from __future__ import annotations

import re
from enum import StrEnum

GRANT = "kafka-acls.sh --add --allow-principal User:NAME"
"""Begins each command that grants a right; `kafka/base/requester.py` names user and addresses."""
SEE_TOPICS = f"{GRANT} --operation Describe --operation DescribeConfigs --topic '*'"
"""Kafka hides a topic, without an error, from a user who may not see it."""


class ClusterRight(StrEnum):
    """An operation on the resource CLUSTER, as `kafka-acls.sh --operation` spells it."""

    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    ALTER = "Alter"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


_NEEDS = re.compile(r"needs ([A-Z_]+) permission")


def missing(subject: str, right: ClusterRight, message: str | None = None) -> tuple[str, str]:
    """(what is missing, the remedy) for the question `subject`. A right that the server names wins over `right`."""
    match = _NEEDS.search(message or "")
    right = ClusterRight.__members__.get(match[1], right) if match else right
    return (
        f"{subject} needs {right.name} on the cluster, which this user does not have",
        f"{GRANT} --operation {right} --cluster",
    )
