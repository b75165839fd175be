"""Exceptions of this package.

They are raised by readers, and caught by the owner of the bytes: a follower that can fetch them again, or a command
that reads a file. Damage during a walk over a file is not raised, but returned as a value (`batches.Damage`), since the
rest of the file can still be read. No message contains the content of a record, which may be secret.
"""

from __future__ import annotations


class KraftLogError(ValueError):
    """Base of all exceptions about the bytes that this package reads."""


class MalformedError(KraftLogError):
    """A batch body, a frame or a record body does not follow its layout."""


class CodecMissing(MalformedError):
    """A batch is compressed, and the library for its codec is not installed; the message names the library."""


class DamagedError(KraftLogError):
    """A batch of a stream is damaged (length, magic or CRC-32C): fetch it again, do not skip it."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(f"damaged batch at byte {position}: {detail}")
        self.position = position
        self.detail = detail


class GapError(KraftLogError):
    """The next batch starts after the end of the applied log, so records between the two would be lost."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the next batch starts at offset {actual}, expected {expected}")
        self.expected = expected
        self.actual = actual


class TooLargeError(KraftLogError):
    """A value is larger than in any real cluster, and would take too much memory or time; the message names it."""


class ImageTooLargeError(TooLargeError):
    """The image would take more memory than its limit."""


class SnapshotIncomplete(KraftLogError):
    """A snapshot lacks its header or footer, or is damaged, so it does not represent a state (KIP-630)."""


class SectionNotRead(LookupError):
    """The caller reads a section of an image that it did not ask for (`Replay(sections=...)`)."""


class ContradictionError(ValueError):
    """A record contradicts the state that it is applied to, such as a change of a partition that is not there. An image
    counts such a record as unreadable; callers that apply records to parts of the state, such as a `PartitionState`,
    catch the error.
    """
