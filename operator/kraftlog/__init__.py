"""KRaft metadata logs: batches, records, images. A library of its own: no I/O, no clock, nothing of the operator.

All functions take bytes: `walk` yields the batches of a file, and damage; `decode` decodes the value of a record;
`Replay` makes an `Image` from a snapshot and the log after it; `files` parses the names of files. The bytes are not
trusted: lengths are checked before memory is reserved, and unreadable bytes raise a `KraftLogError`, or become a value
such as `Damage`. Only the names listed here are stable.
"""

from kraftlog.batches import Batch, Codec, Damage, DamageReason, Header, Record
from kraftlog.encoding import encode_batch
from kraftlog.errors import (
    CodecMissing,
    DamagedError,
    GapError,
    ImageTooLargeError,
    KraftLogError,
    MalformedError,
    SectionNotRead,
    SnapshotIncomplete,
    TooLargeError,
)
from kraftlog.image import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    FinalizedFeatures,
    FormerLevels,
    Image,
    Migration,
    Quorum,
    Registrations,
    Section,
    Voter,
)
from kraftlog.records import Decoded, Raw, RawReason, Unreadable, decode, decode_control, encode, to_json
from kraftlog.replay import Replay, SnapshotReader
from kraftlog.walks import walk

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "BrokerRegistration",
    "Codec",
    "CodecMissing",
    "ControllerRegistration",
    "Damage",
    "DamageReason",
    "DamagedError",
    "Decoded",
    "Endpoint",
    "FinalizedFeatures",
    "FormerLevels",
    "GapError",
    "Header",
    "Image",
    "ImageTooLargeError",
    "KraftLogError",
    "MalformedError",
    "Migration",
    "Quorum",
    "Raw",
    "RawReason",
    "Record",
    "Registrations",
    "Replay",
    "Section",
    "SectionNotRead",
    "SnapshotIncomplete",
    "SnapshotReader",
    "TooLargeError",
    "Unreadable",
    "Voter",
    "decode",
    "decode_control",
    "encode",
    "encode_batch",
    "files",  # a module; imported by name: `from kraftlog import files`
    "to_json",
    "walk",
]
