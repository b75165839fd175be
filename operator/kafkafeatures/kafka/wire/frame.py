"""Frames of the Kafka protocol: four bytes of length, then that many bytes. No I/O.

A length is checked before memory is reserved for it. The first bytes of other protocols are recognised, so that the
error can name the protocol.
"""

from __future__ import annotations

import struct

from kafkafeatures.kafka.base.errors import NotKafka

LENGTH = struct.Struct(">i")
KIB, MIB = 1024, 1024 * 1024

MAX_SHORT_FRAME = 64 * KIB
"""Limit in bytes for responses whose size does not depend on the cluster: ApiVersions, SASL, changes. Real ones have
about a thousand bytes.
"""

MAX_FRAME = MIB
"""Limit in bytes for a list of nodes: some thousands of them, with the longest host names."""

MAX_TOPICS_FRAME = 16 * MIB
"""Limit in bytes for answers about all topics, such as Metadata: some 300,000 partitions."""

MAX_FETCH_FRAME = 32 * MIB
"""Limit in bytes for Fetch and FetchSnapshot: four times the largest batch of a controller."""

_OTHER_PROTOCOLS = (
    (b"HTTP", "an HTTP server"),
    (b"\x15\x03", "TLS (an alert)"),
    (b"\x16\x03", "TLS (a handshake)"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
)
"""First bytes of answers in other protocols, each with the name of the protocol."""


_SET_TLS = "set security.protocol=SSL or SASL_SSL in --config (in a document tls: {})"


def length_of(head: bytes, *, most: int) -> int:
    """The length in the four bytes before a frame. Raises NotKafka for an impossible one, or one above `most` bytes."""
    for first, protocol in _OTHER_PROTOCOLS:
        if head.startswith(first):
            remedy = _SET_TLS if "TLS" in protocol else "check the port"
            raise NotKafka(f"this is {protocol}, not Kafka", remedy=remedy, sent=True)
    (length,) = LENGTH.unpack(head)
    if not 4 <= length <= most:
        raise NotKafka(
            f"the answer claims a length of {length} bytes; this is not Kafka, or it speaks TLS",
            remedy="check the port and the security protocol",
            sent=True,
        )
    return int(length)


def framed(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return LENGTH.pack(len(payload)) + payload
