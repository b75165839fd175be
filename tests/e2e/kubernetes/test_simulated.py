"""The cases that the simulated API server of the fast tests is tested by, sent to a real API server over HTTPS."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulated.conformance import CASES, Ask


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_cases_of_the_simulated_api_server_hold_for_a_real_one(case: Callable[[Ask], None], ask: Ask) -> None:
    case(ask)
