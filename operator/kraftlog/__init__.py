"""KRaft metadata logs: batches, records, images. A library of its own: no I/O, no clock, nothing of the operator."""

from kraftlog.errors import (
    DamagedError,
    GapError,
    ImageTooLargeError,
    KraftLogError,
    MalformedError,
    SnapshotIncomplete,
    TooLargeError,
)
from kraftlog.image import BrokerRegistration, ControllerRegistration, Endpoint, Image, Voter
from kraftlog.replay import Replay, SnapshotReader

__all__ = [
    "BrokerRegistration",
    "ControllerRegistration",
    "DamagedError",
    "Endpoint",
    "GapError",
    "Image",
    "ImageTooLargeError",
    "KraftLogError",
    "MalformedError",
    "Replay",
    "SnapshotIncomplete",
    "SnapshotReader",
    "TooLargeError",
    "Voter",
]
