"""The clocks of the operator, as the machine has them."""

from __future__ import annotations

import time

import pytest

from kafkafeatures.environment import SYSTEM


def test_the_monotonic_clock_continues_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it stood still, what was decided before a suspend would be sent after it, hours later, as if it were decided
    just now.
    """
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clock)
    assert SYSTEM.monotonic() == time.CLOCK_BOOTTIME
