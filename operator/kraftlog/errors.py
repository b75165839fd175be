"""What a metadata log can be refused for.

Raised by the readers of this package and caught by the owner of the bytes: a follower that can fetch them again, a
command that was given a file. Damage met on a walk over a file is not raised: it is a value (`batches.Damage`), because
the rest of the file is still worth reading. Nothing here ever carries the content of a record: records may hold
secrets.
"""

from __future__ import annotations


class KraftLogError(ValueError):
    """The base of everything this package raises about the bytes it was given."""


class MalformedError(KraftLogError):
    """A batch body, a frame or a record body does not follow its layout."""


class CodecMissing(MalformedError):
    """A batch is compressed, and the library that reads its codec is not installed; it says which."""


class DamagedError(KraftLogError):
    """A batch in a stream is not what was written (length, magic or CRC-32C): fetch it again, do not skip it."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"damaged batch at byte {position}: {why}")
        self.position = position
        self.why = why


class GapError(KraftLogError):
    """The next batch starts beyond the end of what was applied: records between the two would be lost."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"the next batch starts at offset {found}, expected {expected}")
        self.expected = expected
        self.found = found


class TooLargeError(KraftLogError):
    """Something is larger than any cluster makes it, and would take too much memory or time; the message says what."""


class ImageTooLargeError(TooLargeError):
    """The image would take more memory than it was allowed."""


class SnapshotIncomplete(KraftLogError):
    """A snapshot without its header or its footer, or with damage in between: it stands for no state (KIP-630)."""


class SectionNotRead(LookupError):
    """A section of an image that its reader did not ask for (`Replay(sections=...)`): a mistake of the caller."""


class ContradictionError(ValueError):
    """A record acts on something that is not there. It stays in this package: an image counts it as unreadable."""
