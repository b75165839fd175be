"""The follower of the metadata log: it trusts a leader only with evidence of a majority, and tries controllers again.

The quorum is scripted, with a clock that the test moves, as real nodes cannot be made to do this on demand. It holds
real batches. `fetched`: ms since the last fetch of each voter, by the clock of the leader. Real nodes are followed in
tests/e2e.
"""

from __future__ import annotations

import pytest

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import (
    AddressRefused,
    AuthenticationFailed,
    Disconnected,
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    Stale,
    TlsFailed,
    Unreachable,
    UnsupportedApi,
)
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.follower import MAX_AGE, MetadataLog
from kafkafeatures.kafka.log.leaders import STRIKES
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import DescribeQuorumRequest, FetchRequest
from tests.kafkafeatures.kafka.scripted_quorum import Controller, Quorum
from tests.kraftlog.build import level, no_op


async def test_an_unmoving_high_watermark_without_a_majority_makes_the_reading_stale(quorum: Quorum) -> None:
    quorum.leader.fetched = {1: 0, 2: 2001, 3: 9000}
    with pytest.raises(Stale, match="no sign of a majority"):
        await quorum.log().catch_up()
    assert MAX_AGE <= quorum.time < 5  # seconds until it is reported


@pytest.mark.parametrize(
    ("fetched", "fresh"),
    [
        pytest.param({1: 0, 2: 1999, 3: 9000}, True, id="two of three voters"),
        pytest.param({1: 0, 2: 2001, 3: 2001}, False, id="the leader alone, of three voters"),
        pytest.param({1: 0}, True, id="the only voter, which is its own majority"),
        pytest.param({1: -1, 2: 0, 3: 0}, False, id="the time of the leader is not known, so no age is"),
        pytest.param({1: 0, 2: -1, 3: -1}, False, id="the times of the other voters are not known"),
        pytest.param({1: 0, 2: 100, 3: 9000, 4: 9000}, False, id="two of four voters"),
    ],
)
async def test_a_majority_counts_if_it_fetched_within_two_seconds_by_the_clock_of_the_leader(
    quorum: Quorum, fetched: dict[int, int], fresh: bool
) -> None:
    quorum.leader.fetched = fetched
    try:
        await quorum.log().catch_up()
    except Stale:
        assert not fresh
    else:
        assert fresh


async def test_evidence_of_a_majority_does_not_count_for_a_later_reading(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    quorum.leader.fetched = {1: 0, 2: 5000, 3: 5000}
    with pytest.raises(Stale):
        await log.catch_up()


async def test_a_describe_quorum_answer_with_an_error_is_no_evidence_of_a_majority(quorum: Quorum) -> None:
    quorum.leader.quorum_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(Stale):
        await quorum.log().catch_up()


async def test_a_higher_high_watermark_of_another_leader_is_no_evidence_of_a_majority(quorum: Quorum) -> None:
    old, new = quorum.leader, quorum.controllers[2]
    new.log, new.high_watermark, new.fetched = list(old.log), old.end, {1: 9000, 2: 0, 3: 9000}
    old.fetched = {1: 0, 2: 9000, 3: 9000}

    def change() -> None:
        for controller in quorum.controllers.values():
            controller.leader, controller.epoch = 2, 6
        new.append(no_op())
        old.up = False

    quorum.on_request(6, change)
    log = quorum.log()
    with pytest.raises(Stale):
        await log.catch_up()
    assert new.asked


async def test_a_moving_high_watermark_is_evidence_of_a_majority_if_describe_quorum_is_denied(quorum: Quorum) -> None:
    quorum.leader.quorum_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    quorum.leader.grows = True
    assert (await quorum.log().catch_up()).image.offset > 2  # the end of the log before it grew


async def test_a_majority_in_another_leader_epoch_is_no_evidence(quorum: Quorum) -> None:
    quorum.leader.quorum_epoch = 6
    with pytest.raises(Stale):
        await quorum.log().catch_up()


async def test_evidence_of_a_majority_at_the_beginning_of_a_long_reading_does_not_count_at_its_end(
    quorum: Quorum,
) -> None:
    for value in range(40):  # eight seconds of requests
        quorum.leader.append(level("metadata.version", 7 + value % 2))
    quorum.leader.per_reply = 1
    quorum.leader.fetched = {1: 0, 2: 5000, 3: 5000}
    log = quorum.log()
    quorum.on_request(10, quorum.leader.append, no_op())  # the high watermark moves once, early
    with pytest.raises(Stale):
        await log.catch_up()


async def test_evidence_of_a_majority_at_the_end_of_a_long_reading_counts(quorum: Quorum) -> None:
    for value in range(40):
        quorum.leader.append(level("metadata.version", 7 + value % 2))
    quorum.leader.per_reply = 1
    quorum.on_request(10, quorum.leader.append, no_op())
    assert (await quorum.log().catch_up()).image.offset >= 42


async def test_an_old_leader_that_was_cut_off_does_not_hide_the_new_leader(quorum: Quorum) -> None:
    old, new = quorum.controllers[1], quorum.controllers[2]
    old.fetched = {1: 0, 2: 60_000, 3: 60_000}
    for controller in (new, quorum.controllers[3]):
        controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
        controller.append(level("metadata.version", 21))
    for _ in range(12):  # all answer at once, in an order that nothing determines
        reading = await quorum.log().catch_up()
        assert (reading.leader_id, reading.leader_epoch) == (2, 6)
        assert reading.image.features["metadata.version"] == 21


async def test_a_reading_does_not_return_to_an_older_epoch_of_a_leader_without_followers(quorum: Quorum) -> None:
    new = quorum.controllers[2]
    for controller in (new, quorum.controllers[3]):
        controller.leader, controller.epoch, controller.log = 2, 6, list(quorum.leader.log)
        controller.append(level("metadata.version", 21))
    quorum.leader.up = False
    log = quorum.log()
    assert (await log.catch_up()).leader_epoch == 6
    quorum.leader.up, new.up = True, False
    quorum.controllers[3].up = False
    quorum.leader.fetched = {1: 0, 2: 60_000, 3: 60_000}
    with pytest.raises(KafkaError):
        await log.catch_up()


async def after_an_election(quorum: Quorum) -> MetadataLog:
    """A log that was read from the new leader, while the former one does not answer."""
    old, new, third = quorum.controllers.values()
    for controller in (new, third):
        controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
    new.append(level("metadata.version", 21))
    old.up = False
    log = quorum.log()
    assert (await log.catch_up()).image.features["metadata.version"] == 21
    return log


async def test_a_leader_that_just_lost_an_election_does_not_turn_the_image_back(quorum: Quorum) -> None:
    """The followers of that leader left it less than two seconds ago, so it still looks as if it had a majority."""
    old, new, third = quorum.controllers.values()
    log = await after_an_election(quorum)
    old.up, new.up, third.up = True, False, False
    began = quorum.time

    def leave() -> None:
        old.fetched = {1: 0, 2: 2100, 3: 2100}

    quorum.at_time(began + 2.0, leave)
    with pytest.raises(KafkaError):
        await log.catch_up()


async def test_a_reading_does_not_return_to_an_older_epoch_named_by_a_restarted_leader(quorum: Quorum) -> None:
    """The leader came back without what it had heard, and names the former one, which looks as if it had a majority."""
    old, new, third = quorum.controllers.values()
    log = await after_an_election(quorum)
    old.up = True
    for controller in (new, third):
        controller.leader, controller.epoch = 1, 5

    def leave() -> None:
        old.fetched = {1: 0, 2: 2100, 3: 2100}

    quorum.at_time(quorum.time + 2.0, leave)
    with pytest.raises(KafkaError):
        await log.catch_up()


async def test_a_reading_follows_a_new_leader(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    for controller in quorum.controllers.values():
        controller.leader, controller.epoch = 3, 7
        controller.log = list(quorum.leader.log)
    quorum.controllers[3].append(level("metadata.version", 25))
    reading = await log.catch_up()
    assert (reading.leader_id, reading.image.features["metadata.version"]) == (3, 25)


async def test_records_committed_by_the_next_leader_are_read_before_its_majority_counts(quorum: Quorum) -> None:
    """The leader goes between its answer and the question for its majority, which another one is then asked."""
    old, new = quorum.leader, quorum.controllers[2]
    answer = old.answer

    def goes(message: object) -> object:
        if not isinstance(message, DescribeQuorumRequest):
            return answer(message)
        for controller in (new, quorum.controllers[3]):
            controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
            controller.append(level("metadata.version", 21))
        old.up = False
        raise Disconnected("the connection ended before the answer", sent=True)

    old.answer = goes  # type: ignore[method-assign]
    reading = await quorum.log().catch_up()
    assert reading.leader_id == 2
    assert reading.image.offset == reading.high_watermark == new.high_watermark
    assert reading.image.features["metadata.version"] == 21


async def test_a_reading_waits_for_a_leader_without_a_high_watermark(quorum: Quorum) -> None:
    """In its first moments, a leader does not know it. What its predecessor had committed may not be all."""
    old, new = quorum.leader, quorum.controllers[2]
    old.grows = True  # so its high watermark is evidence, and the new one needs none of its own

    def change() -> None:
        for controller in (new, quorum.controllers[3]):
            controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
        new.append(level("metadata.version", 21), committed=False)
        new.high_watermark = -1
        old.up = False

    def commit() -> None:
        new.high_watermark = new.end

    log = quorum.log()
    await log.catch_up()
    quorum.leader.quorum_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    quorum.on_request(quorum.requests + 3, change)
    quorum.at_time(quorum.time + 2.0, commit)
    reading = await log.catch_up()
    assert (reading.leader_id, reading.image.features["metadata.version"]) == (2, 21)
    assert reading.image.offset == reading.high_watermark == new.end


def lead_by_the_last_controller(quorum: Quorum) -> Controller:
    """Let controller 3, which is tried last, lead with the log that controller 1 had."""
    log = list(quorum.controllers[1].log)
    for controller in quorum.controllers.values():
        controller.leader = 3
    leader = quorum.controllers[3]
    leader.log, leader.high_watermark = log, log[-1][0] + 1
    return leader


async def test_a_leader_named_by_other_controllers_is_connected_to_once(quorum: Quorum) -> None:
    leader = lead_by_the_last_controller(quorum)
    assert (await quorum.log().catch_up()).leader_id == leader.id
    assert quorum.connects == len(quorum.controllers)


async def test_a_leader_that_closed_the_connection_once_is_connected_to_again(quorum: Quorum) -> None:
    leader = lead_by_the_last_controller(quorum)
    leader.cuts = 1
    assert (await quorum.log().catch_up()).leader_id == leader.id
    assert quorum.connects == len(quorum.controllers) + 1


async def test_a_reading_without_a_leader_fails_with_no_active_controller(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.leader = -1
    with pytest.raises(NoLeader, match="no active controller is known"):
        await quorum.log().catch_up()


async def test_a_missing_right_is_reported_at_once_with_the_line_that_grants_it(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(NotAuthorized, match="needs CLUSTER_ACTION") as caught:
        await quorum.log().catch_up()
    assert "--operation ClusterAction --cluster" in caught.value.remedy
    assert quorum.time < 5


async def test_a_broker_among_the_addresses_of_controllers_is_reported(quorum: Quorum) -> None:
    """A broker answers a fetch of the metadata log with UNKNOWN_TOPIC_ID."""
    for controller in quorum.controllers.values():
        controller.code = ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(UnsupportedApi, match="it is a broker"):
        await quorum.log().catch_up()


async def test_a_reading_without_an_address_of_a_controller_is_an_error() -> None:
    log = MetadataLog(connect=None, controllers=(), request_timeout=1.0, environment=SYSTEM)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="no address of a controller is known"):
        await log.catch_up()


ALWAYS = 1_000_000


async def test_a_reading_soon_fails_if_controllers_close_every_connection(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.cuts = ALWAYS
    log = quorum.log()
    for look in (1, 2):  # each reading tries again
        began = quorum.time
        with pytest.raises(Disconnected):
            await log.catch_up()
        assert quorum.connects == look * 3 * STRIKES
        assert quorum.time - began < 3.0


async def test_a_reading_fails_if_the_leader_closes_every_fetch(quorum: Quorum) -> None:
    """Other controllers still name it, and may elect another leader, so it is tried `STRIKES` times."""
    served_at: list[float] = []

    def served(message: object) -> object:
        if isinstance(message, FetchRequest) and message.current_leader_epoch == quorum.leader.epoch:
            served_at.append(quorum.time)
            raise Disconnected("the connection ended before the answer", sent=True)
        return answer(message)

    answer = quorum.leader.answer
    quorum.leader.answer = served  # type: ignore[method-assign]
    with pytest.raises(NoLeader, match="the leader h:1 rejects or closes every connection"):
        await quorum.log().catch_up()
    assert len(served_at) == STRIKES
    assert max(served_at) < 5.0


@pytest.mark.parametrize(
    "refusal", [AuthenticationFailed("no"), TlsFailed("no"), AddressRefused()], ids=lambda e: e.kind
)
async def test_controllers_that_refuse_the_connection_are_asked_once(quorum: Quorum, refusal: KafkaError) -> None:
    for controller in quorum.controllers.values():
        controller.refuses = refusal
    with pytest.raises(type(refusal)):
        await quorum.log().catch_up()
    assert (quorum.connects, quorum.time) == (3, 0.0)


async def test_a_controller_that_refuses_is_not_asked_again_during_an_election(quorum: Quorum) -> None:
    quorum.controllers[3].refuses = AuthenticationFailed("no")
    for id_ in (1, 2):
        quorum.controllers[id_].leader = -1

    def elected() -> None:
        for id_ in (1, 2):
            quorum.controllers[id_].leader = 1

    quorum.at_time(2.0, elected)
    asked: list[int] = []
    log = quorum.log()
    connect = log._leaders._connect

    async def watched(address: Address) -> Connection:
        asked.append(address.port)
        return await connect(address)

    log._leaders._connect = watched
    assert (await log.catch_up()).leader_id == 1
    assert asked.count(3) == 1
    assert asked.count(1) > 1


async def test_a_controller_that_closes_one_connection_is_asked_again(quorum: Quorum) -> None:
    """A controller does so when it stops to lead."""
    for controller in quorum.controllers.values():
        controller.cuts = 1
    assert (await quorum.log().catch_up()).leader_id == 1
