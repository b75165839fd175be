"""`migration settings`, and the phase of `describe --zookeeper`, if no controller was contacted or none answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.cli.migration.settings import draw, unread_controllers
from kafkafeatures.cli.shell.output import console
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.demands import SettingDifferences
from kafkafeatures.core.migration.positions import Position, quorum_uncertainty
from kafkafeatures.core.migration.progress import MigrationProgress, progress_of
from kafkafeatures.core.report.zookeeper_document import zookeeper_document, zookeeper_lines
from tests.kafkafeatures.core.migrations import cluster

NO_ADDRESS = Failure(FailureKind.NOT_ASKED, "bootstrapControllers", "no address is given")
REFUSES = Failure(FailureKind.UNREACHABLE, "controller-1:9093", "connection refused")
AT = cluster(Position.ZOOKEEPER)
UNASKED, SILENT = replace(AT, gaps=(NO_ADDRESS,)), replace(AT, gaps=(REFUSES,))
"""A cluster in ZooKeeper mode: no controller has an address to ask at; the controller refuses connections."""


def needed(seen: Observation, desired: Desired) -> SettingDifferences:
    """The settings to change for the next phase on the way to the desired one."""
    place = progress_of(seen, desired)
    assert isinstance(place, MigrationProgress)
    return replace(place.demands, missing=tuple(unread_controllers(place.demands, seen)))


@pytest.mark.parametrize("desired", [Desired.PRE_MIGRATION, Desired.DUAL_WRITE, Desired.ROLLED_BACK])
def test_controllers_are_unknown_if_no_address_of_a_controller_is_configured(
    desired: Desired, capsys: pytest.CaptureFixture[str]
) -> None:
    found = needed(UNASKED, desired)
    assert [str(one) for one in found.unknown] == [
        "controllers: no controller was contacted, but some may be running; give --bootstrap-controller"
    ]
    draw(console(), found)
    output = capsys.readouterr().out
    assert output.startswith("The cluster is at ZooKeeper, unless a controller runs")
    assert "Not known: controllers: no controller was contacted" in output


@pytest.mark.parametrize(
    ("desired", "unknown"),
    [
        (Desired.PRE_MIGRATION, ["controllers: none answers; start them with these lines"]),
        (Desired.ROLLED_BACK, []),
    ],
)
def test_controllers_that_do_not_answer_are_unknown_unless_the_migration_is_rolled_back(
    desired: Desired, unknown: list[str]
) -> None:
    assert [str(one) for one in needed(SILENT, desired).unknown] == unknown


@pytest.mark.parametrize(
    ("position", "desired", "caution"),
    [
        (
            Position.DUAL_WRITE,
            Desired.FINALIZED,
            "as soon as a controller without zookeeper.metadata.migration.enable becomes",
        ),
        (Position.COPIED, Desired.DUAL_WRITE, "Restart no node with these lines before KafkaFeatures asks for it"),
    ],
)
def test_the_lines_of_configuration_come_with_a_caution(
    position: Position, desired: Desired, caution: str, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(console(), needed(cluster(position), desired))
    assert caution in " ".join(capsys.readouterr().out.split())


def test_wrapped_lines_of_the_migration_settings_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    found = needed(UNASKED, Desired.PRE_MIGRATION)
    draw(console(width=1000), found)
    whole = capsys.readouterr().out.splitlines()
    draw(console(width=50), found)
    narrow = capsys.readouterr().out.splitlines()
    assert len(narrow) > len(whole)
    assert all(one.startswith("  ") or any(line.startswith(one) for line in whole) for one in narrow)


@pytest.mark.parametrize("position", [Position.PRE_MIGRATION, Position.DUAL_WRITE])
def test_no_controller_address_is_missing_if_the_quorum_answers(position: Position) -> None:
    """Brokers that know the quorum name its controllers."""
    seen = replace(cluster(position), gaps=(NO_ADDRESS,))
    assert quorum_uncertainty(position, seen) is None
    assert list(unread_controllers(needed(seen, Desired.DUAL_WRITE), seen)) == []


@pytest.mark.parametrize(
    ("seen", "phase", "shown"),
    [
        (SILENT, "ZooKeeper", "ZooKeeper"),
        (
            UNASKED,
            None,
            "unknown: controllers: no controller was contacted, but some may be running; give --bootstrap-controller",
        ),
    ],
)
def test_describe_does_not_say_that_no_controller_runs_if_none_was_contacted(
    seen: Observation, phase: str | None, shown: str
) -> None:
    assert isinstance(seen.zookeeper, Known)
    lines: Mapping[str, str] = dict(zookeeper_lines(seen.zookeeper.value, seen))
    assert lines["Phase"] == shown
    assert zookeeper_document(seen.zookeeper.value, seen)["phase"] == phase


def test_describe_names_the_brokers_in_kraft_mode_beside_those_in_zookeeper_mode() -> None:
    seen = cluster(Position.DUAL_WRITE)
    assert isinstance(seen.zookeeper, Known)
    assert dict(zookeeper_lines(seen.zookeeper.value, seen))["KRaft mode"] == "3 brokers: 1, 2, 3"
    early = cluster(Position.PRE_MIGRATION)
    assert "KRaft mode" not in dict(zookeeper_lines(early.zookeeper.value, early))  # type: ignore[union-attr]
