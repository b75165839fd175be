"""Reads the document of a `KafkaFeatures` resource, already parsed from YAML or JSON, into its type (`api/spec.py`), or
lists every problem in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.schema import read_strictly
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.values import replace


class InvalidDocument(ValueError):
    """The document is invalid. `str()` has one line for each problem."""

    reason: ClassVar[Reason] = Reason.INVALID_SPEC

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UnknownRelease(InvalidDocument):
    """The document names a release, or a level by a name, that this version does not know. Raised by
    `core/resolve.py`.
    """

    reason = Reason.UNKNOWN_RELEASE


def read_document(document: object) -> KafkaFeatures:
    """The resource in a parsed document, without its status. Raises InvalidDocument with every problem."""
    if not isinstance(document, Mapping):
        raise InvalidDocument(("the document is not a mapping; it must start with apiVersion and kind",))
    body = {key: value for key, value in document.items() if key != "status"}
    resource, problems = read_strictly(KafkaFeatures, body)
    if resource is None:
        raise InvalidDocument(problems)
    return replace(resource, raw_spec=body["spec"], own_namespace=body["metadata"].get("namespace", ""))
