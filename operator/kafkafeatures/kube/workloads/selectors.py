"""Label selectors of Kubernetes: as the query of a request, and compared with labels.

Called by the drivers. An operator other than In, NotIn, Exists and DoesNotExist raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Selector = Mapping[str, Any]


def as_query(selector: Selector) -> str:
    """A selector as the query parameter `labelSelector`. Raises ValueError for one that would select everything."""
    query = ",".join(_requirements(selector))
    if not query:
        raise ValueError("a selector that selects every pod")
    return query


def selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """True if a selector of a PodDisruptionBudget (policy/v1) selects these labels. None selects nothing, an empty
    selector everything.
    """
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _holds(requirement, labels) for requirement in selector.get("matchExpressions") or ()
    )


def _requirements(selector: Selector) -> Iterator[str]:
    """Each requirement of the selector, as it is written in a query."""
    yield from (f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
    for requirement in selector.get("matchExpressions") or ():
        key, values = requirement["key"], ",".join(requirement.get("values") or ())
        match requirement["operator"]:
            case "In":
                yield f"{key} in ({values})"
            case "NotIn":
                yield f"{key} notin ({values})"
            case "Exists":
                yield key
            case "DoesNotExist":
                yield f"!{key}"
            case other:
                raise ValueError(f"the operator {other!r} of a selector is not known")


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether the labels meet one of `matchExpressions`."""
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise ValueError(f"the operator {other!r} of a selector is not known")
