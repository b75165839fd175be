"""Failures of several addresses of one kind, joined to one failure."""

from __future__ import annotations

import itertools

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.base.bootstrap import combined

REFUSED = Failure(FailureKind.NOT_LISTENING, "a:1", "connection refused", "start it")
SILENT = Failure(FailureKind.UNREACHABLE, "b:1", "no connection within 5 s")
DENIED = Failure(FailureKind.AUTHENTICATION, "c:1", "wrong password")


def test_not_listening_is_reported_only_if_every_address_refuses_connections() -> None:
    """`NotListening` proves that no controller runs, so one silent address must not be hidden by the others."""
    assert combined("controllers", [REFUSED, REFUSED]).kind is FailureKind.NOT_LISTENING
    for order in itertools.permutations([REFUSED, SILENT, REFUSED]):
        assert combined("controllers", order).kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize(
    "others",
    [(SILENT,), (REFUSED, SILENT), (REFUSED,)],
    ids=["silent", "connection refused and silent", "connection refused"],
)
def test_a_combined_failure_has_the_kind_of_its_first_failure_other_than_not_listening(
    others: tuple[Failure, ...],
) -> None:
    assert combined("controllers", [DENIED, *others]).kind is FailureKind.AUTHENTICATION
    assert combined("controllers", [REFUSED, DENIED, *others]).kind is FailureKind.AUTHENTICATION
