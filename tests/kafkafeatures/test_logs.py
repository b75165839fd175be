"""Log lines of the operator."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkafeatures.logs import configure


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize(
    ("level", "shown"),
    [("info", ["ours", "urgent"]), ("warning", ["urgent"]), ("error", [])],
)
def test_log_lines_below_the_configured_level_are_left_out(
    level: str, shown: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Lines of libraries such as Kopf are left out below a warning, whatever the level is."""
    configure("text", level)
    logging.getLogger("kafkafeatures").info("ours")
    logging.getLogger("kopf.objects").info("of the library")
    logging.getLogger("kopf.objects").warning("urgent")
    assert [line.split()[-1] for line in capfd.readouterr().err.splitlines()] == shown
