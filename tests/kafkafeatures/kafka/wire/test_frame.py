"""Lengths, and the first bytes of what is no Kafka: judged before memory is taken for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.kafka.base.errors import NotKafka
from kafkafeatures.kafka.wire.frame import _OTHER_PROTOCOLS, MAX_FETCH_FRAME, MAX_FRAME, framed, length_of


@pytest.mark.parametrize(
    ("head", "said", "remedy"),
    [
        (b"HTTP", "an HTTP server", "check the port"),
        (b"\x15\x03\x03\x00", "TLS", "set security.protocol=SSL"),
        (b"\x15\x03\x01\x00", "TLS", "set security.protocol=SSL"),
        (b"\x16\x03\x03\x00", "TLS", "set security.protocol=SSL"),
        (b"SSH-", "an SSH server", "check the port"),
        (b"220 ", "a mail or FTP server", "check the port"),
        (b"\x7f\xff\xff\xff", "2147483647 bytes", "check the port and the security protocol"),
        (b"\xff\xff\xff\xff", "-1 bytes", "check the port and the security protocol"),
        (b"\x80\x00\x00\x00", "-2147483648 bytes", "check the port and the security protocol"),
        (b"\x00\x00\x00\x00", "0 bytes", "check the port and the security protocol"),
        (b"\x00\x00\x00\x03", "3 bytes", "check the port and the security protocol"),
        (b"\x01\x00\x00\x01", "16777217 bytes", "check the port and the security protocol"),
    ],
)
def test_an_implausible_frame_length_is_reported_with_a_remedy(head: bytes, said: str, remedy: str) -> None:
    with pytest.raises(NotKafka) as caught:
        length_of(head, most=MAX_FRAME)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize("most", [MAX_FRAME, MAX_FETCH_FRAME])
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_the_maximum_frame_length_is_exact_to_the_byte(most: int, step: int) -> None:
    head = (most + step).to_bytes(4, "big")
    if step > 0:
        with pytest.raises(NotKafka):
            length_of(head, most=most)
    else:
        assert length_of(head, most=most) == most + step


@given(head=st.binary(min_size=4, max_size=4), most=st.sampled_from([MAX_FRAME, MAX_FETCH_FRAME]))
def test_every_frame_header_gives_a_length_within_the_limit_or_is_refused(head: bytes, most: int) -> None:
    length = int.from_bytes(head, "big", signed=True)
    if 4 <= length <= most:
        assert length_of(head, most=most) == length
    else:
        with pytest.raises(NotKafka):
            length_of(head, most=most)


@pytest.mark.parametrize("first", [first for first, _ in _OTHER_PROTOCOLS])
def test_no_answer_of_kafka_can_be_taken_for_another_protocol(first: bytes) -> None:
    """The smallest length that begins with these bytes is above every limit."""
    assert int.from_bytes(first.ljust(4, b"\0"), "big") > MAX_FETCH_FRAME


@given(payload=st.binary(min_size=4, max_size=200))
def test_a_frame_begins_with_its_length(payload: bytes) -> None:
    frame = framed(payload)
    assert length_of(frame[:4], most=MAX_FRAME) == len(payload)
    assert frame[4:] == payload
