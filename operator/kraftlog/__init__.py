"""KRaft metadata logs: batches, records, images. A library of its own: no I/O, no clock, nothing of the operator."""

from kraftlog.errors import DamagedError, GapError, KraftLogError, MalformedError, SnapshotIncomplete
from kraftlog.image import BrokerRegistration, ControllerRegistration, Endpoint, Image, Voter
from kraftlog.replay import Replay

__all__ = [
    "BrokerRegistration",
    "ControllerRegistration",
    "DamagedError",
    "Endpoint",
    "GapError",
    "Image",
    "KraftLogError",
    "MalformedError",
    "Replay",
    "SnapshotIncomplete",
    "Voter",
]
