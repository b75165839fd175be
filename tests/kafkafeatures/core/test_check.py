"""A check of health and of a release, where the levels cannot be read."""

from __future__ import annotations

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.facts.observation import MetadataMode
from kafkafeatures.core.report.check import CheckVerdict, check
from tests.kafkafeatures.worlds import SILENT, node, observation

LEVELS = {"metadata.version": 27}


def test_a_cluster_in_zookeeper_mode_is_not_ready_for_the_levels_of_a_release() -> None:
    seen = observation(node(1), mode=MetadataMode.ZOOKEEPER, levels={})
    found = check(seen, LEVELS, "")
    assert found.verdict is CheckVerdict.BLOCKED
    assert BlockerKind.ZOOKEEPER_MODE in {one.kind for one in found.blockers}
    assert BlockerKind.QUORUM not in {one.kind for one in check(seen, {}, "").blockers}


def test_without_an_active_controller_nothing_is_ready() -> None:
    seen = observation(node(1), voting=SILENT)
    for levels in ({}, LEVELS):
        found = check(seen, levels, "")
        assert found.verdict is CheckVerdict.BLOCKED
        assert BlockerKind.QUORUM in {one.kind for one in found.blockers}
