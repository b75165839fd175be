"""What several addresses of one kind said, as one failure."""

from __future__ import annotations

import itertools

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.base.bootstrap import combined

REFUSED = Failure(FailureKind.NOT_LISTENING, "a:1", "connection refused", "start it")
SILENT = Failure(FailureKind.UNREACHABLE, "b:1", "no connection within 5 s")
DENIED = Failure(FailureKind.AUTHENTICATION, "c:1", "wrong password")


def test_that_nothing_listens_is_said_only_where_each_address_says_it() -> None:
    """That proves that no controller runs, so one that is silent must not be lost among the others."""
    assert combined("controllers", [REFUSED, REFUSED]).kind is FailureKind.NOT_LISTENING
    for order in itertools.permutations([REFUSED, SILENT, REFUSED]):
        assert combined("controllers", order).kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize("others", [(SILENT,), (REFUSED, SILENT), (REFUSED,)])
def test_else_the_first_says_of_which_kind_it_is(others: tuple[Failure, ...]) -> None:
    assert combined("controllers", [DENIED, *others]).kind is FailureKind.AUTHENTICATION
