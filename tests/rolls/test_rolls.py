"""Rolls of modelled clusters keep every promise (P1 to P5 in `roller`), and the model detects a broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.replication import Admission, Replication
from kafkafeatures.core.roll import planner
from tests.amounts import share
from tests.rolls import roller
from tests.rolls.roller import roll


def test_rolls_with_crashes_hangs_and_reassignments_keep_every_promise_and_end() -> None:
    """`python -m tests.rolls` runs as many as you like."""
    steps = sum(roll(seed) for seed in range(share(30)))
    assert steps > 500


def _ignores_who_is_away(judge: Callable[..., Admission]) -> Callable[..., Admission]:
    return lambda self, down, rule, **others: judge(self, frozenset(), rule, **others)


def _respects_only_min_isr(judge: Callable[..., Admission]) -> Callable[..., Admission]:
    return lambda self, down, _, **others: judge(self, down, Availability.RESPECT_MIN_ISR, **others)


def _always_excuses(judge: Callable[..., Admission]) -> Callable[..., Admission]:
    return lambda self, down, rule, **_: judge(self, down, rule, excused=True)


@pytest.mark.parametrize(
    ("target", "name", "defect", "broken"),
    [
        pytest.param(Replication, "judge", _ignores_who_is_away, "P1", id="who is away is forgotten"),
        pytest.param(Replication, "judge", _respects_only_min_isr, "P1", id="only min ISR is respected"),
        pytest.param(Replication, "judge", _always_excuses, "P1", id="everything is excused"),
        pytest.param(Replication, "under_min_isr", lambda _: lambda *_, **__: (0, ()), "P5", id="nothing is low"),
        pytest.param(roller, "why_not_restart", lambda _: lambda *_: None, "P2", id="no majority is needed"),
        pytest.param(roller, "next_controller", lambda _: lambda left, _: max(left), "P3", id="whoever leads"),
        pytest.param(planner, "cap", lambda _: lambda *_: 64, "P4", id="there is always room"),
        pytest.param(
            Replication, "out_of_sync", lambda _: lambda *_: (0, ()), "not back", id="back before it is in sync"
        ),
    ],
)
def test_a_defect_is_found(
    target: Any, name: str, defect: Callable[[Any], Any], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 38 if broken == "P2" else 0  # P2 needs a controller that crashes at the wrong moment, as with this seed
    monkeypatch.setattr(target, name, defect(getattr(target, name)))
    with pytest.raises(AssertionError, match=f"seed .*: {broken}"):
        sum(roll(seed) for seed in range(first, first + 100))
