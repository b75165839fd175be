"""Which levels were given up is kept over readings that begin anew, and only where they leave no gap."""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.readings import Failure, FailureKind, LogReading
from kafkafeatures.kafka.level_history import LevelHistory
from kraftlog import FormerLevels
from tests.kafkafeatures.worlds import NOW, image


def reading(offset: int, former: FormerLevels) -> LogReading:
    found = image(offset=offset)
    assert found.finalized is not None
    return LogReading(replace(found, finalized=replace(found.finalized, former=former)), offset, 3001, 4, NOW)


FROM_THE_BEGINNING = FormerLevels({("share.version", 2): 50})
FROM_A_SNAPSHOT = FormerLevels({}, 80, 70)


def test_a_log_that_is_read_anew_from_a_snapshot_keeps_its_past() -> None:
    history = LevelHistory()
    assert history.complete(reading(100, FROM_THE_BEGINNING), "a").image.former_levels == FROM_THE_BEGINNING
    assert history.complete(reading(120, FROM_A_SNAPSHOT), "a").image.former_levels == FROM_THE_BEGINNING
    assert history.complete(reading(140, FormerLevels({}, 130, 90)), "a").image.former_levels.since_offset == 130


def test_another_cluster_and_a_log_that_went_back_have_none() -> None:
    unknown = Failure(FailureKind.NOT_ASKED, "", "not known")
    for offset, cluster in ((120, "b"), (90, "a"), (120, unknown)):
        history = LevelHistory()
        history.complete(reading(100, FROM_THE_BEGINNING), "a")
        assert history.complete(reading(offset, FROM_A_SNAPSHOT), cluster).image.former_levels == FROM_A_SNAPSHOT
