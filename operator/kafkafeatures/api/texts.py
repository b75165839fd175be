"""Types of the texts in a document: names, releases, consents, durations, each with its limits and its pattern.

They are types of fields of a document (`api/spec.py`), by which `api/schema.py` checks it. The patterns are the same as
in `crds/`.
"""

import re
from typing import Annotated

from kafkafeatures.api.names import MAX_NAME, NAME
from kafkafeatures.api.schema import Text

_SELECTOR = (
    r"^[A-Za-z0-9][-A-Za-z0-9_./]*(=[-A-Za-z0-9_.]+| in \([-A-Za-z0-9_., ]+\))"
    r"(,[A-Za-z0-9][-A-Za-z0-9_./]*(=[-A-Za-z0-9_.]+| in \([-A-Za-z0-9_., ]+\)))*$"
)
"""Without `!=` and `notin`, which would match the pods of every other cluster."""
LEVEL_NAME = r"^[0-9]+\.[0-9]+(-IV[0-9]+)?$"

Name = Annotated[str, Text(MAX_NAME, 1, NAME, "a name of a-z, 0-9, '-' and '.', with a letter or digit at both ends")]
SecretKey = Annotated[str, Text(253, 1, r"^[-._a-zA-Z0-9]+$", "a key of a-z, A-Z, 0-9, '-', '_' and '.'")]
CertificateKey = Annotated[
    str, Text(253, 1, r"^(\*\.crt|[-._a-zA-Z0-9]+)$", "a key of a-z, A-Z, 0-9, '-', '_' and '.', or *.crt for several")
]
Bootstrap = Annotated[str, Text(2048, 3)]
Feature = Annotated[str, Text(64, 0, r"^[a-z][a-z0-9._]*$", "the name of a feature, such as metadata.version")]
Release = Annotated[str, Text(32, 0, LEVEL_NAME, 'a release such as "4.1", or a level of it such as "4.1-IV1"')]
Consent = Annotated[
    str,
    Text(
        128,
        0,
        r"^([a-z][a-z0-9._]*:[0-9]+->[0-9]+|dynamic-quorum|zk-finalize|zk-rollback-lossy|zk-lose-broker:[0-9]{1,10}"
        r"|zk-controllers-stopped|single-replica-topics|quorum-of-one"
        r"|new-disk:(broker|controller|node)-[0-9]+:[0-9a-f]{8}|client-breaks:[A-Z][A-Za-z]{1,63}:(0|[1-9][0-9]{0,4}))$",
        "a consent such as 'group.version:1->0', dynamic-quorum, zk-finalize, zk-rollback-lossy, "
        "zk-lose-broker:3, zk-controllers-stopped, single-replica-topics, quorum-of-one, new-disk:broker-3:1f0c22ab "
        "or client-breaks:Produce:2",
    ),
]
KafkaRelease = Annotated[str, Text(8, 0, r"^[0-9]{1,2}\.[0-9]{1,2}$", 'a release of Kafka such as "4.1"')]
BrokerPattern = Annotated[
    str,
    Text(
        256, 0, r"^((\.\*)?[-A-Za-z0-9_:/.]*\((\\d|\[0-9\])\+\)[-A-Za-z0-9_:/.]*(\.\*)?)?$",
        "plain text around ([0-9]+), such as .*-([0-9]+)",  # no other quantifier: each takes time that a tenant chooses
    ),
]  # fmt: skip
Url = Annotated[
    str,
    Text(
        1024, 0, r"^https?://[A-Za-z0-9.\-\[\]:]+(/[-A-Za-z0-9._~/%]*)?$",
        "a URL such as https://prometheus.monitoring:9090, without user, password, query and fragment",
    ),
]  # fmt: skip
PlanHash = Annotated[str, Text(71, 0, r"^sha256:[0-9a-f]{8,64}$", "the hash of a plan, such as sha256:9f3c1b7a51c2")]
ContainerName = Annotated[str, Text(63, 1, NAME, "the name of a container, such as kafka")]
PodSelector = Annotated[
    str,
    Text(
        1024, 1, _SELECTOR, "a label selector such as app=kafka,kafka_cr=orders, of parts KEY=VALUE or KEY in (A,B)"
    ),
]  # fmt: skip
AnnotationName = Annotated[
    str,
    Text(317, 1, r"^([-a-z0-9.]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*$", "the name of an annotation of pods"),
]
StatefulSetName = Annotated[str, Text(MAX_NAME, 1, NAME, "the name of a StatefulSet in the same namespace")]
SecondsToHours = Annotated[str, Text(16, 0, r"^[0-9]+(s|m|h)$", "a duration in s, m or h, such as 90s, 15m or 24h")]
SecondsToMinutes = Annotated[str, Text(16, 0, r"^[0-9]+(s|m)$", "a duration in s or m, such as 30s or 2m")]
MillisecondsToMinutes = Annotated[
    str, Text(16, 0, r"^[0-9]+(ms|s|m)$", "a duration in ms, s or m, such as 500ms, 30s or 2m")
]
MinutesToHours = Annotated[str, Text(16, 0, r"^[0-9]+(m|h)$", "a duration in m or h, such as 90m or 4h")]

_DURATION = re.compile(r"^([0-9]{1,15})(ms|s|m|h)$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 8760 * 3600
"""Longest soak, window or time-out in seconds: a year."""


def seconds(duration: str) -> float:
    """Seconds that a duration such as "15m" stands for. Raises ValueError for any other text."""
    match = _DURATION.match(duration)
    if match is None:
        raise ValueError(f"{duration!r:.60} is not a duration")
    return int(match[1]) * _UNITS[match[2]]
