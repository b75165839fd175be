"""Exit codes of the command line, and the exception that ends a command. Used by every command."""

from enum import IntEnum

from kafkafeatures import interrupts

PROGRAM = "kafkafeatures"


class Exit(IntEnum):
    """Codes that a script can rely on."""

    DONE = 0
    FAILED = 1  # internal error, or files that are damaged or incomplete
    CHANGES = 2  # only with --detailed-exitcode: the plan has changes
    APPROVAL = 3  # a plan waits for approval
    BLOCKED = 4  # or refused; also a document that is not valid
    UNREACHABLE = 5  # timed out, could not be reached, or does not speak Kafka
    STALLED = 6  # a resource on Kubernetes needs a person
    USAGE = 64  # wrong command line; EX_USAGE of sysexits.h
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
"""Exit codes from best to worst: a command with several results ends with the worst one."""


def to_install(extras: str) -> str:
    """The command that installs the libraries of these extras, for messages. It names a folder, since the package is in
    no registry.
    """
    return f"pip install '.[{extras}]' in the folder of this repository"


class CommandFailed(Exception):
    """Ends a command with an exit code and one line on stderr (problem, place, remedy), or several lines, one for each
    problem.

    `what`, `where` and `remedy`: the parts of the line, for JSON, if they are known. `page`: the page of the
    documentation about it, with its address; empty for none. `program`: name before the message.
    """

    def __init__(
        self,
        message: str,
        code: Exit,
        *,
        what: str = "",
        where: str = "",
        remedy: str = "",
        page: str = "",
        program: str = PROGRAM,
    ) -> None:
        super().__init__(f"{message}; see {page}" if page else message)
        self.code, self.program = code, program
        self._parts = {"what": what or message, "where": where, "remedy": remedy, "page": page}

    @property
    def document(self) -> dict[str, dict[str, str | int]]:
        """The error for scripts, on one line."""
        parts: dict[str, str | int] = {name: text for name, text in self._parts.items() if text}
        return {"error": {**parts, "exitCode": int(self.code)}}
