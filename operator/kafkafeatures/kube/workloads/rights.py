"""A right in Kubernetes as data: a driver's module lists those that it needs, the chart grants them, and tests compare
the two.
"""

from __future__ import annotations

from typing import NamedTuple


class KubernetesRight(NamedTuple):
    """One verb on one resource of an API group, as in a rule of a Role. `group`: empty for core resources."""

    group: str
    resource: str
    verb: str
