"""What a driver may do in Kubernetes, as data: its module lists it, the chart grants it, tests compare the two."""

from __future__ import annotations

from typing import NamedTuple


class KubernetesRight(NamedTuple):
    """One verb on one resource of an API group, as a rule of a Role has it. The group of core resources is empty."""

    group: str
    resource: str
    verb: str
