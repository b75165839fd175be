"""What real nodes of Kafka 4.4 answered to UnregisterController, against the simulator and our codec."""

from __future__ import annotations

import struct

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.wire.codec import decode_response
from kafkafeatures.kafka.wire.unregister_codec import UnregisterControllerRequest, UnregisterResponse
from tests.conformance.unregistrations import FORMAT, RAISE, recorded, steps
from tests.kafkasim.clusters import exchange, plan, served

API_KEY = UnregisterControllerRequest.api_key


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def test_the_recording_has_all_steps_and_all_answers() -> None:
    rows = recorded()
    assert [(row.to, row.whom, row.raised) for row in rows] == list(steps())
    assert {decode_response(API_KEY, 0, row.reply)[1].error_code for row in rows} == {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
    }


def test_an_error_code_that_kio_does_not_know_is_decoded_with_its_message() -> None:
    (first,) = [row for row in recorded() if row.raised][:1]
    words = "Controller ID 9999 is not currently registered."
    correlation_id, answer = decode_response(API_KEY, 0, first.reply)
    assert correlation_id == 7  # as in `request_of`
    assert answer == UnregisterResponse(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, words)


async def test_the_simulator_answers_on_the_wire_as_the_real_cluster_did() -> None:
    rows = recorded()
    leader = rows[0].leader
    controllers = dict.fromkeys((3001, 3002, 3003), "4.4")
    async with served(plan({1: "4.4"}, controllers, metadata_version=FORMAT[1], leader=leader)) as server:
        raised = False
        for row in rows:
            if row.raised and not raised:
                await exchange(server, Role.CONTROLLER, leader, framed(RAISE))
                raised = True
            role = Role.BROKER if row.node == 1 else Role.CONTROLLER
            answer = await exchange(server, role, row.node, framed(row.request))
            assert answer[4:] == row.reply, (
                row, decode_response(API_KEY, 0, answer[4:]), decode_response(API_KEY, 0, row.reply),
            )  # fmt: skip
