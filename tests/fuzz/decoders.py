"""The table of everything that decodes bytes from outside: what is fed to it, and the errors it may answer with.

A decoder is a function of the bytes alone. Anything that it raises besides its own errors is a bug, and so is a second
of CPU for one input.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import google_crc32c

from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.core.clients.exporters import ScrapeRefused
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.copied.places import read_entries
from kafkafeatures.core.migration.copied.topics import read_state, read_topic
from kafkafeatures.kafka.base.errors import AuthenticationFailed, KafkaError, NotKafka
from kafkafeatures.kafka.base.settings import OAuthToken, Sasl
from kafkafeatures.kafka.log import batch_heads
from kafkafeatures.kafka.wire import sasl
from kafkafeatures.kafka.wire.codec import decode_response, encode_request, every_api
from kafkafeatures.kafka.wire.frame import MAX_FETCH_FRAME, length_of
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kafkafeatures.kafka.wire.oauth import read_token
from kafkafeatures.kafka.wire.secrets import Secrets
from kafkasim.wire.codec import NotKafkaError, read_head, read_request
from kraftlog import KraftLogError, MalformedError, Replay, Section, SnapshotReader
from kraftlog import records as frames
from kraftlog.batches import CRC_START, HEADER_SIZE, Batch, Codec, inflate
from kraftlog.reading import Entry, Reading
from kraftlog.redaction import redacted
from kraftlog.rolls import RollReader
from kraftlog.varints import read_signed, read_unsigned
from kraftlog.walks import walk
from tests.clients.exporters import EXPORTERS
from tests.fuzz.replies import BROKER, CONTROL, LOGS, Reply, log_requests, replies
from tests.kraftlog import build
from tests.kraftlog.partitions import change, clear_elr, partition, remove, topic

Bytes = Sequence[bytes]

RECORDS = LOGS.parent / "records"
PART = 300  # bytes of a snapshot at a time
IMAGE = 4 * 1024 * 1024  # bytes of memory that one may take


@dataclass(frozen=True)
class Decoder:
    """`seeds` are what it is made for; inputs are made of them."""

    decode: Callable[[bytes], object]
    errors: type[Exception]
    seeds: Callable[[], Bytes]
    executions: int = 20_000


# --- replies: the version goes in front ---


SECRETS = Secrets()
SECRETS.add("alice-secret-9f3c", "SCRAM-SHA-512")  # one of them is said in replies


def _reply(api: int, data: bytes) -> object:
    """Decodes a reply by the steps of a connection."""
    ours = every_api()[api].versions
    if not data:
        return None
    return SECRETS.removed_from(decode_response(api, ours.min + data[0] % (ours.max - ours.min + 1), data[1:])[1])


def seed_of(reply: Reply) -> bytes:
    return bytes([reply.version - every_api()[reply.api].versions.min]) + reply.data


def _replies_of(api: int) -> Bytes:
    return [seed_of(one) for one in replies() if one.api == api]


def _request(data: bytes) -> object:
    return read_request(read_head(data), data)


def _requests() -> Bytes:
    """Requests of every kind that the simulator reads by this codec: the headers, and one body that has arrays of its
    own.
    """
    return [
        encode_request(message, version=version, correlation_id=7, client_id="fuzz")
        for message in [*BROKER, *CONTROL, *log_requests(3, OffsetAndEpoch(70, 2))]
        for version in range(every_api()[message.api_key].versions.min, every_api()[message.api_key].versions.max + 1)
    ]


# --- logs ---


@cache
def logs() -> Mapping[str, bytes]:
    """Segments and snapshots."""
    paths = sorted([*LOGS.glob("*/*.log"), *LOGS.glob("*/*.checkpoint")])
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in paths}


def pieces() -> Bytes:
    """All batches of all segments, in pieces of about a thousand bytes that begin at offset 0."""
    found = []
    for name, data in logs().items():
        piece: list[Batch] = []
        for one in walk(data) if name.endswith(".log") else ():
            assert isinstance(one, Batch)
            piece.append(one)
            if sum(each.size for each in piece) > 1000:
                found.append(_moved(piece))
                piece = []
        found.append(_moved(piece))
    return [piece for piece in found if piece]


def _moved(batches: Sequence[Batch]) -> bytes:
    out, offset = b"", 0
    for one in batches:
        out += struct.pack(">q", offset) + one.data[8:]
        offset += one.last_offset_delta + 1
    return out


def resealed(data: bytes) -> bytes:
    """The bytes with CRCs that hold, as a hostile node writes them; batch by batch as long as the lengths
    make sense.
    """
    out, position = bytearray(data), 0
    while position + HEADER_SIZE <= len(out):
        (length,) = struct.unpack_from(">i", out, position + 8)
        end = position + 12 + length
        if not position + HEADER_SIZE <= end <= len(out):
            break
        out[position + 16] = 2
        crc = google_crc32c.value(bytes(out[position + CRC_START : end]))
        struct.pack_into(">I", out, position + 17, crc)
        position = end
    return bytes(out)


def _replay(data: bytes) -> object:
    replay = Replay(limit=IMAGE)
    try:
        for piece in batch_heads.pieces(data):
            replay.append(piece, below=2**62)
    finally:
        replay.image()
    return batch_heads.from_offset(data, 3), batch_heads.end_of(data)


def _rolls(data: bytes) -> object:
    """The nodes and partitions of a log over time."""
    reader = RollReader(since_ms=0, default_minimum=2)
    for piece in batch_heads.pieces(data):
        reader.append(piece, below=2**62)
    return reader.finish(5)


def _partitions(data: bytes) -> object:
    """A batch behind one that has topics and partitions: how many records it claims, in one byte, and its records."""
    replay = Replay(sections=Section, limit=IMAGE)
    replay.append(FOUNDATION, below=2**62)
    head = bytearray(FOUNDATION[:HEADER_SIZE])
    struct.pack_into(">qi", head, 0, replay.offset, HEADER_SIZE - 12 + len(data) - 1)
    struct.pack_into(">i", head, HEADER_SIZE - 4, data[0] if data else 0)
    replay.append(resealed(bytes(head) + data[1:]), below=2**62)
    if replay.image().unreadable:
        raise MalformedError("some of it does not read")
    return list(replay.image().partitions.rows())


FOUNDATION = build.batch(
    0, *(value for n in (1, 2, 3) for value in (topic(n), *(partition(n, at, 1, 2) for at in range(20))))
)


def _changed() -> Bytes:
    """Records of partitions, so many that they are read together."""
    changes = [change(n, at, isr=(2,), leader=2) for n in (1, 2) for at in range(20)]
    moved = [change(n, at, replicas=(2, 3), addingReplicas=(3,)) for n in (1, 2) for at in range(20)]
    anew = [topic(4), *(partition(4, at, *range(1, 2 + at % 5), version=at % 3) for at in range(60))]
    found = (changes, anew, [*changes[:20], *moved[20:]], [*anew[:40], remove(1), clear_elr(""), *changes[20:]])
    return [bytes([len(each)]) + build.batch(63, *each)[HEADER_SIZE:] for each in found]


def _snapshot(data: bytes) -> object:
    reader = SnapshotReader(end_offset=1000, epoch=3, limit=IMAGE)
    for at in range(0, len(data), PART):
        reader.feed(data[at : at + PART])
    return reader.finish().image()


def snapshots() -> Bytes:
    return [data for name, data in logs().items() if name.endswith(".checkpoint")]


def _walk(data: bytes) -> object:
    return [list(found.records()) for found in walk(data) if isinstance(found, Batch)]


def _account(data: bytes) -> object:
    """Reads a file for `log verify`: whatever the bytes are, all of them are accounted for."""
    reading = Reading(data)
    items = list(reading)
    assert reading.account.is_balanced
    for one in items:
        if isinstance(one, Entry) and isinstance(one.content, frames.Decoded):
            frames.to_json(redacted(one.content).data)
    if not reading.account.is_sound:
        raise MalformedError("some of it does not read")
    return items


def _sections() -> Bytes:
    """Gzip streams, among them one of zeros."""
    found = [one.data[HEADER_SIZE:] for data in logs().values() for one in walk(data) if isinstance(one, Batch)]
    return [_gzip(b"".join(found[at : at + 5])) for at in range(0, 50, 5)] + [_gzip(bytes(1_000_000))]


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def _values(control: bool) -> Bytes:
    """Values of records; of control records with their keys in front."""
    found = {}
    for data in logs().values():
        for batch in walk(data):
            if isinstance(batch, Batch) and batch.is_control == control:
                for record in batch.records():
                    value = record.value or b""
                    found[(record.key if control else value[:3]), len(value)] = (record.key or b"") + value
    return list(found.values())


def _written() -> Bytes:
    """Records of every type, version and layout, as Kafka's own classes wrote them."""
    lines = [
        json.loads(line)
        for path in sorted(RECORDS.glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    return [bytes.fromhex(one["hex"]) for one in lines if one["hex"].startswith("01")]


def _control(data: bytes) -> object:
    return frames.decode_control(data[:4], data[4:])


def _varints(data: bytes) -> object:
    return [read(data, at, bits) for read in (read_signed, read_unsigned) for bits in (32, 64) for at in range(3)]


# --- authentication ---


def _exchange(mechanism: str, data: bytes) -> object:
    """Answers of a server, one after the other, behind a byte each that says how long they are."""
    login = Sasl(mechanism, "alice", "secret", oauth=OAuthToken("token") if mechanism == "OAUTHBEARER" else None)
    steps = sasl.exchange(login, "token")
    sent = sasl.step(steps, None)
    nonce = sent.partition(b",r=")[2] if sent else b""
    while sent is not None:
        size, data = (data[0], data[1:]) if data else (0, b"")
        sent = sasl.step(steps, data[:size].replace(b"NONCE", nonce))
        data = data[size:]
    return None


def _answers(*texts: bytes) -> bytes:
    return b"".join(bytes([len(text)]) + text for text in texts)


SCRAM = [
    _answers(b"r=NONCEfyko,s=QSXCR+Q6sek8bf92,i=1", b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="),
    _answers(b"r=NONCEfyko,s=QSXCR+Q6sek8bf92,i=4", b"e=invalid-proof"),
    _answers(b"m=ext,r=NONCEf,s=,i=0"),
]


def _token(data: bytes) -> object:
    token, _ = read_token(data, "issuer:443")
    return next(sasl.exchange(Sasl("OAUTHBEARER", oauth=OAuthToken(token)), token))


TOKENS = [
    b'{"access_token": "eyJhbGciOiJub25lIn0.e30.", "token_type": "Bearer", "expires_in": 3600}',
    b'{"access_token": "\\ud800", "expires_in": 1e400}',
    b'{"access_token": "a", "expires_in": -1e-400, "scope": [[[[[[{"a": {}}]]]]]]}',
    b"[" * 100_000,
]


# --- znodes: which one goes in front ---


class ZnodeRefusedError(Exception):
    """A znode was not understood: readers of znodes say so with a value."""


ZNODES: Mapping[str, bytes] = {
    "/brokers/topics/t": b'{"version":3,"topic_id":"4L6g3nShT-eMCtK--X86sw","partitions":{"0":[1,2]},'
    b'"adding_replicas":{}}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}',
    "/config/topics/t": b'{"version":1,"config":{"retention.ms":"1","of.a.plugin":"secret"}}',
    "/config/users/a%40b": b'{"version":1,"config":{"SCRAM-SHA-256":"salt=QQ==,stored_key=QQ==,server_key=QQ==,'
    b'iterations=4096","producer_byte_rate":"1e3"}}',
    "/config/users/a/clients/b": b'{"version":1,"config":{"request_percentage":"12.5"}}',
    "/kafka-acl/Topic/t": b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","host":"*",'
    b'"operation":"Read"}]}',
    "/delegation_token/tokens/t": b'{"version":3,"owner":"User%3Aa","tokenRequester":"User%3Aa","renewers":[],'
    b'"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"t"}',
    "/latest_producer_id_block": b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
}


def _znode(data: bytes) -> object:
    path = [*ZNODES][data[0] % len(ZNODES)] if data else "/config/topics/t"
    if path.endswith("/state"):
        found: object = read_state("t", 0, data[1:])
    elif path == "/brokers/topics/t":
        found = read_topic("t", data[1:])
    else:
        found = read_entries(path, data[1:])
    if isinstance(found, ZnodeFinding):
        raise ZnodeRefusedError(str(found))
    return str(found)


def _znodes() -> Bytes:
    return [bytes([at]) + data for at, data in enumerate(ZNODES.values())]


def _head(data: bytes) -> object:
    return length_of(data[:4].ljust(4, b"\0"), most=MAX_FETCH_FRAME)


def _scrape(data: bytes) -> object:
    return ExpositionReader().read(io.BytesIO(data))


def _scrapes() -> Bytes:
    counters = {("ApiVersions", 3): 12.0, ("Fetch", 11): 2_000_000.0, ("Produce", 2): 7.0}
    return [exporter(counters).encode() for exporter in EXPORTERS.values()]


DECODERS: Mapping[str, Decoder] = {
    **{f"reply {api}": Decoder(partial(_reply, api), KafkaError, partial(_replies_of, api)) for api in every_api()},
    "request": Decoder(_request, NotKafkaError, _requests),
    "frame": Decoder(_head, NotKafka, lambda: [b"\0\0\1\0", b"HTTP", b"\x15\x03\x03\0", b"\x7f\xff\xff\xff"]),
    "log": Decoder(_replay, KraftLogError, pieces),
    "log, sealed": Decoder(lambda data: _replay(resealed(data)), KraftLogError, pieces),
    "rolls": Decoder(lambda data: _rolls(resealed(data)), KraftLogError, pieces),
    "partitions": Decoder(_partitions, KraftLogError, _changed, executions=5_000),
    "snapshot": Decoder(_snapshot, KraftLogError, snapshots),
    "snapshot, sealed": Decoder(lambda data: _snapshot(resealed(data)), KraftLogError, snapshots),
    "file": Decoder(lambda data: _walk(resealed(data)), KraftLogError, pieces),
    "account": Decoder(lambda data: _account(resealed(data)), KraftLogError, pieces, executions=5_000),
    "gzip": Decoder(lambda data: inflate(data, Codec.GZIP), KraftLogError, _sections),
    "record": Decoder(frames.decode, KraftLogError, lambda: [*_values(False), *_written()]),
    "control record": Decoder(_control, KraftLogError, partial(_values, True)),
    "varint": Decoder(_varints, KraftLogError, lambda: [b"\x96\1\0\0", b"\xff\xff\xff\xff\x0f\0\0", bytes(3)]),
    "SCRAM": Decoder(partial(_exchange, "SCRAM-SHA-256"), AuthenticationFailed, lambda: SCRAM),
    "OAUTHBEARER": Decoder(partial(_exchange, "OAUTHBEARER"), AuthenticationFailed, lambda: [_answers(b"{}", b"")]),
    "znode": Decoder(_znode, ZnodeRefusedError, _znodes),
    "token": Decoder(_token, AuthenticationFailed, lambda: TOKENS),
    "scrape": Decoder(_scrape, ScrapeRefused, _scrapes, executions=5_000),
}  # fmt: skip
