"""What real nodes of Kafka 4.4 answered to ApiVersions that name a node, against the simulator and our codec."""

from __future__ import annotations

import struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.wire.codec import decode_response
from tests.conformance.names import OWN, recorded, rows
from tests.kafkasim.clusters import CLUSTER_ID, exchange, plan, served


def test_the_recording_has_all_names() -> None:
    assert [replace(row, reply=b"") for row in recorded()] == list(rows())


def test_a_broker_refuses_every_name_except_its_own_and_a_controller_accepts_all_names() -> None:
    whole = [row for row in recorded() if row.version == 5 and row.cluster is not None and row.offset is not None]
    for row in whole:
        is_refused = row.node == 1 and (row.cluster, row.offset) != (OWN, 0)
        assert row.code == (ErrorCode.REBOOTSTRAP_REQUIRED if is_refused else ErrorCode.NONE), row
    assert len(whole) == 12


def test_a_name_with_only_one_of_its_two_parts_is_an_invalid_request() -> None:
    halves = [row for row in recorded() if row.version == 5 and (row.cluster is None) != (row.offset is None)]
    assert {row.code for row in halves} == {ErrorCode.INVALID_REQUEST}


async def test_the_simulator_accepts_and_refuses_the_names_that_real_nodes_accept_and_refuse() -> None:
    async with served(plan({1: "4.4"}, {3001: "4.4"}, metadata_version=33)) as server:
        for row in recorded():
            role = Role.BROKER if row.node == 1 else Role.CONTROLLER
            sent = row.request(CLUSTER_ID)
            answer = (await exchange(server, role, row.node, struct.pack(">i", len(sent)) + sent))[4:]
            if row.code:
                assert answer == row.reply, row
            else:
                mine, theirs = (decode_response(18, row.version, each)[1] for each in (answer, row.reply))
                assert (mine.error_code, mine.api_keys) == (0, theirs.api_keys), row
