"""A status that somebody else wrote: what decisions rely on is judged, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.reconcile.shapes import misshapen
from tests.kafkafeatures import statuses

AT = "2026-01-01T00:00:00Z"
STATUS: dict[str, Any] = {
    "clusterId": "c",
    "changeCount": 3,
    "spentConsents": ["group.version:1->0"],
    "history": [{"at": AT, "action": "group.version 1 -> 0", "result": "read back"}],
    "conditions": [{"type": "Ready", "status": "True", "reason": "InSync", "message": "", "lastTransitionTime": AT}],
    "features": [{"name": "group.version", "desired": 0, "state": "InSync"}, {"name": "kraft.version"}],
    "intent": {"action": "UpdateFeature", "target": "f", "before": "0", "after": "1", "at": AT, "offset": 9},
    "plan": {"hash": "sha256:0", "createdAt": AT, "summary": "", "steps": [{"detail": "f 0 -> 1"}]},
    "progress": "1/1 levels",
}


def test_what_we_write_ourselves_fits() -> None:
    assert misshapen(STATUS) == ()
    assert misshapen({}) == ()
    kinds = (
        statuses.in_sync, statuses.acting, statuses.waiting_for_approval, statuses.stalled,
        statuses.suspended, statuses.observed,
    )  # fmt: skip
    for made in kinds:
        assert misshapen(made()) == ()
        assert misshapen(statuses.unreachable(made())) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("intent", {"action": "UpdateFeature", "target": "f", "after": "1", "at": AT}),
        ("intent", "f 0 -> 1"),
        ("plan", {"hash": "sha256:0", "createdAt": AT, "steps": [{"detail": "nonsense"}]}),
        ("plan", {"hash": "sha256:0", "steps": []}),
        ("history", [{"at": AT, "action": "f 0 -> 1"}]),
        ("history", [{"at": "2026-01-01T00:00:00", "action": "a", "result": "b"}]),
        ("conditions", [{"type": "Ready"}]),
        ("spentConsents", [{"group.version": "1->0"}]),
        ("changeCount", "3"),
        ("changeCount", True),
        ("features", {"name": "f"}),
    ],
)
def test_what_cannot_be_understood_is_named_and_nothing_else(field: str, value: Any) -> None:
    assert misshapen({**STATUS, field: value}) == (field,)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at", "action", "steps", "x"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(STATUS)), JSON))
def test_whatever_stands_there_is_judged_and_never_raises(status: dict[str, Any]) -> None:
    assert set(misshapen(status)) <= set(status)
