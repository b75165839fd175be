"""Fixtures of the tests of the follower of the metadata log."""

from __future__ import annotations

import pytest

from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kraftlog.build import level


@pytest.fixture
def quorum() -> Quorum:
    """A quorum that has finalized metadata.version 20 and group.version 1."""
    made = Quorum()
    made.leader.append(level("metadata.version", 20))
    made.leader.append(level("group.version", 1))
    return made
