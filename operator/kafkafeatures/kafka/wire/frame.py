"""Frames of the Kafka protocol: four bytes of length, then that many bytes. No I/O.

Called by `connection.py`. A length is judged before memory is taken for it: what is too long is no Kafka frame, and the
first bytes of other protocols are recognised, so that an error names what answers there instead.
"""

from __future__ import annotations

import struct

from kafkafeatures.kafka.base.errors import NotKafka

LENGTH = struct.Struct(">i")
KIB, MIB = 1024, 1024 * 1024

MAX_SHORT_FRAME = 64 * KIB
"""Bytes of a reply that lists nothing that grows: ApiVersions, SASL, changes. Real ones have about a thousand."""

MAX_FRAME = MIB
"""Bytes of a list of nodes: some thousands of them, with the longest names there can be."""

MAX_TOPICS_FRAME = 16 * MIB
"""Bytes of a reply to Metadata of all topics: some 300,000 partitions."""

MAX_FETCH_FRAME = 32 * MIB
"""Bytes of a reply to Fetch or FetchSnapshot: four times what a controller puts into a batch and sends at once."""

_OTHERS = (
    (b"HTTP", "an HTTP server"),
    (b"\x15\x03", "TLS (an alert)"),
    (b"\x16\x03", "TLS (a handshake)"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
)


def length_of(head: bytes, *, most: int) -> int:
    """The length a frame claims in its four bytes. Raises NotKafka for one that cannot be meant."""
    for first, protocol in _OTHERS:
        if head.startswith(first):
            raise NotKafka(
                f"this is {protocol}, not Kafka",
                remedy="use security.protocol SSL or SASL_SSL (tls: {})" if "TLS" in protocol else "check the port",
                sent=True,
            )
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
