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
test_migration test_terminal test_migrations test_fuzz test_recorded_statuses test_command_line_waits test_interrupts
test_demo_roll test_reliability test_encores test_arrow_columns test_process test_upgrade test_rolls test_new_driver
test_new_effect test_approvals test_soaks test_reduce test_logger_levels test_command_line test_readings test_main
test_remedies
""".split()
"""Files that take longest, in their order. `pytest --dist loadfile --no-loadscope-reorder` hands out by file."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not SOAK:
        long = {item for item in items if item.get_closest_marker("soak")}
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


def pytest_configure() -> None:
    gc.disable()  # while tests are collected: all that is made then stays


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
