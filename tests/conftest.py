"""Runs equal examples every time, without a deadline per example: the speed of a machine is not tested. Long files come
first, so that no process is left with one at the end. What was collected stays, and no search for garbage looks at it.
"""

import gc

import pytest
from hypothesis import settings

from tests.amounts import SOAK

EXAMPLES = 100 if SOAK else 30
"""Random examples of a property that has no number of its own."""
settings.register_profile("steady", deadline=None, derandomize=True, database=None, max_examples=EXAMPLES)
settings.load_profile("steady")

LONG = """
test_terminal test_command_line test_command_line_waits test_fuzz test_new_effect test_interrupts test_remedies
test_main
""".split()
"""Tests that start programs, longest first. `pytest --dist loadfile --no-loadscope-reorder` hands out by file."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not SOAK:
        long = {item for item in items if item.get_closest_marker("soak")}
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
