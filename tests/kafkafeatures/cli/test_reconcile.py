"""`reconcile`: it ends with the first status that the operator wrote after it was asked, and with its exit code."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.names import RECONCILE
from kafkafeatures.cli.kube.reconcile import answer
from kafkafeatures.cli.shell.exit_codes import Exit
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

ASKED = "2026-01-02T03:04:05+00:00"


def answered(status: dict[str, Any], by: str = ASKED) -> Any:
    """A resource whose status answers the request of the time `by`; the latest request is of ASKED."""
    return resource({**status, "lastHandledReconcileAt": by}, annotations={RECONCILE: ASKED})


@pytest.mark.parametrize(
    ("found", "code", "message"),
    [
        (resource(annotations={RECONCILE: ASKED}), None, ""),
        (answered(statuses.in_sync(), by="2026-01-01T00:00:00+00:00"), None, ""),
        (answered(statuses.in_sync()), Exit.DONE, "kafka/orders is ready: InSync"),
        (answered(statuses.acting()), Exit.DONE, "kafka/orders: UpdatingFeatures: "),
        (answered(statuses.suspended()), Exit.DONE, "kafka/orders: Suspended: "),
        (answered(statuses.waiting_for_approval()), Exit.APPROVAL, "a plan is waiting for approval"),
        (answered(statuses.stalled()), Exit.STALLED, "kafka/orders is stalled: GhostRegistration"),
        (answered(statuses.unreachable(statuses.in_sync())), Exit.UNREACHABLE, "kafka/orders: Unreachable: "),
    ],
    ids=[
        "no answer yet", "an answer to an earlier request", "in sync", "acting", "suspended", "waiting for approval",
        "stalled", "unreachable",
    ],
)  # fmt: skip
def test_the_command_reconcile_ends_with_the_answer_of_the_operator(
    found: Any, code: Exit | None, message: str
) -> None:
    ending = answer(found)
    assert (ending.code if ending else None) == code
    assert message in (ending.text if ending else "")
