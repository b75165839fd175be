"""`describe --watch` draws a cluster again after each change, and ends with Ctrl-C."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster import matrix
from kafkafeatures.cli.cluster.watch import EVERY, watch
from kafkafeatures.core.facts.observation import Observation, Source, SourceKind
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.environment import Environment
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kafkafeatures.worlds import node, observation
from tests.kafkasim.test_process import heard, simulator

AWAY = ClusterUnreachable(Failure(FailureKind.NOT_LISTENING, "kafka:9092", "connection refused"))


def at_offset(offset: int, level: int) -> Observation:
    source = Source(SourceKind.METADATA_LOG, offset, 3)
    return replace(observation(node(1), node(2), levels={"metadata.version": level}), source=source)


class Over(Exception):
    """There are no more readings."""


async def drawn(*readings: Observation | ClusterUnreachable) -> Sequence[str]:
    """What was drawn after these readings, one text for each screen."""
    left, out, pauses = list(readings), io.StringIO(), []

    async def read() -> Observation:
        reading = left.pop(0)
        if isinstance(reading, ClusterUnreachable):
            raise reading
        return reading

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if not left:
            raise Over

    environment = Environment(clock=lambda: datetime(2026, 1, 2, 3, 4, 5 + len(pauses), tzinfo=UTC), sleep=sleep)
    with pytest.raises(Over):
        await watch(read, matrix.draw, lambda: Console(width=100, color_system=None), out, environment)
    assert pauses == [EVERY] * len(readings)
    return out.getvalue().split("\x1b[H\x1b[2J")[1:]


async def test_a_cluster_is_drawn_again_only_after_a_change() -> None:
    before, after = await drawn(at_offset(7, 25), at_offset(9, 25), at_offset(11, 27), at_offset(13, 27))
    assert ("25 (4.0-IV3)" in before, "27 (4.1-IV1)" in after) == (True, True)
    assert before.endswith("\nDrawn at 03:04:05 UTC, and again after each change; Ctrl-C ends.\n")
    assert "Drawn at 03:04:07 UTC" in after


async def test_a_cluster_that_cannot_be_reached_stays_on_the_screen_with_the_failure() -> None:
    before, away, back = await drawn(at_offset(7, 25), AWAY, AWAY, at_offset(9, 25))
    assert "Not reached: kafka:9092: connection refused" in away
    assert "25 (4.0-IV3)" in away
    assert "Not reached" not in before + back


async def test_a_cluster_that_cannot_be_reached_at_first_is_an_error() -> None:
    async def read() -> Observation:
        raise AWAY

    with pytest.raises(ClusterUnreachable):
        await watch(read, matrix.draw, Console, io.StringIO(), Environment())


def test_watching_ends_with_ctrl_c_and_exit_code_0(tmp_path: Path) -> None:
    with simulator() as process:
        servers = str(heard(process)["bootstrapServers"])
        command = (*PROGRAM, "describe", "--watch", "--bootstrap-server", servers)
        ended = in_terminal(command, cwd=tmp_path, answers=[("Ctrl-C ends", "\x03")])
    assert ended.code == 0
    assert "Traceback" not in ended.text
