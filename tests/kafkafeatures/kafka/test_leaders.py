"""The search for a leader of the quorum while there is none: how long it lasts, and how often controllers are asked."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.errors import NoLeader, Unreachable
from tests.kafkafeatures.kafka.scripted_quorum import HOSTS, Quorum


async def test_controllers_are_asked_about_once_a_second_until_the_timeout_while_there_is_no_leader(
    quorum: Quorum,
) -> None:
    for controller in quorum.controllers.values():
        controller.leader = -1
    quorum.controllers[3].up = False
    with pytest.raises(NoLeader):
        await quorum.log().catch_up()
    assert 30.0 <= quorum.time < 32.0  # seconds: the request timeout
    assert quorum.connects <= 3 * 35  # three controllers in each round; the pause between rounds grows to one second


async def test_a_newly_listed_controller_is_not_asked_in_the_same_reading(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.up = False
    log = quorum.log()
    with pytest.raises(Unreachable):
        await log.catch_up()
    assert not log.leaders.has_unasked
    log.add_controllers([replace(HOSTS[0], id=9, port=9)])
    assert log.leaders.has_unasked


async def test_a_reading_fails_after_a_second_if_no_controller_listens(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.up = False
    with pytest.raises(Unreachable):
        await quorum.log().catch_up()
    assert 1.0 <= quorum.time < 2.0  # seconds: `NOBODY_WITHIN`, not the request timeout of 30
