"""`list`: the state and the number of reached levels in each row."""

from __future__ import annotations

import pytest

from kafkafeatures.cli.kube.list import cells_of
from kafkafeatures.cli.kube.resource import KubeResource
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource


@pytest.mark.parametrize(
    ("found", "state", "levels"),
    [
        (resource(), "not reconciled", "-"),
        (resource(statuses.in_sync()), "InSync", "1/1"),
        (resource(statuses.stalled()), "GhostRegistration", "0/2"),
    ],
    ids=["no status yet", "in sync", "stalled"],
)
def test_list_shows_the_reason_as_state_and_counts_levels(found: KubeResource, state: str, levels: str) -> None:
    cells = cells_of(found)
    assert (cells["State"], cells["Levels"]) == (state, levels)
