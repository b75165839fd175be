"""Exit codes of the command line, in one place."""

from enum import IntEnum

from kafkafeatures import interrupts


class Exit(IntEnum):
    """What a script can rely on."""

    DONE = 0
    FAILED = 1
    CHANGES = 2
    APPROVAL = 3
    BLOCKED = 4  # or refused; also a document that is not valid
    UNREACHABLE = 5  # timed out, could not be reached, or does not speak Kafka
    STALLED = 6
    USAGE = 64
    INTERRUPTED = interrupts.EXIT_CODE


SEVERITY = (
    Exit.DONE,
    Exit.CHANGES,
    Exit.APPROVAL,
    Exit.UNREACHABLE,
    Exit.BLOCKED,
    Exit.STALLED,
    Exit.FAILED,
    Exit.USAGE,
)
"""From the best one to the worst: the code of a command that did several things."""


class CommandFailed(Exception):
    """Ends a command: one line for stderr (what, where, what to do) and the exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code
