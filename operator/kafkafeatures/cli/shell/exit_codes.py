"""Exit codes of the command line, and the exception that ends a command. Used by every command."""

from collections.abc import Iterable
from enum import IntEnum

from kafkafeatures import interrupts

PROGRAM = "kafkafeatures"


class Exit(IntEnum):
    """Codes that a script can rely on."""

    DONE = 0
    FAILED = 1
    CHANGES = 2
    APPROVAL = 3
    BLOCKED = 4
    UNREACHABLE = 5
    STALLED = 6
    USAGE = 64  # EX_USAGE of sysexits.h
    INTERRUPTED = interrupts.EXIT_CODE


MEANINGS = {
    Exit.DONE: "done, or in sync",
    Exit.FAILED: "failed: an internal error, an unregistration without effect, a log with damaged or missing files, or "
    "something that is not installed",
    Exit.CHANGES: "there are changes (`plan --detailed-exitcode`)",
    Exit.APPROVAL: "a plan is waiting for approval, or for a confirmation that no terminal can give",
    Exit.BLOCKED: "blocked or refused: by a safety check, by the state of the cluster, or by a person who was asked; "
    "also a valid document that asks for what cannot be",
    Exit.UNREACHABLE: "timed out; the cluster or the API server could not be reached, rejected the login, or is not "
    "Kafka; what the answer depends on could not be read; or a right is missing or not known",
    Exit.STALLED: "stalled: action required (`wait`)",
    Exit.USAGE: "wrong flags or arguments, or a file that they name is missing or not valid: a document, client "
    "properties, certificates, a kubeconfig",
    Exit.INTERRUPTED: "interrupted (143: by SIGTERM); a command that can change something says whether "
    "anything was sent",
}
"""The meaning of each code, in Markdown: the only table, also of the documentation."""


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


def worst(codes: Iterable[Exit]) -> Exit:
    """The worst of these codes, at least one."""
    return max(codes, key=SEVERITY.index)


def to_install(extras: str) -> str:
    """The command that installs the libraries of these extras, for messages. It names a folder, since the package is in
    no registry.
    """
    return f"pip install '.[{extras}]' in the folder of this repository"


class CommandFailed(Exception):
    """Ends a command with an exit code and one line on stderr (problem, place, remedy), or several lines, one for each
    problem.

    `what`, `where` and `remedy`: the parts of the line, for JSON, if they are known. `page`: the page of the
    documentation about it, with its address; empty for none. `program`: name before the message. `is_of_cluster`: True
    for a failure of the cluster that the connection is to, not of another system such as the API server or ZooKeeper.
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
        is_of_cluster: bool = False,
    ) -> None:
        super().__init__(f"{message}; see {page}" if page else message)
        self.code, self.program, self.is_of_cluster = code, program, is_of_cluster
        self._parts = {"what": what or message, "where": where, "remedy": remedy, "page": page}

    def add_source(self, source: str) -> None:
        """Add where the connection of the cluster comes from: not every user knows each source."""
        note = f"the connection is that of {source}"
        self.args = (f"{self}; {note}",)
        self._parts["remedy"] = "; ".join(filter(None, (self._parts["remedy"], note)))

    @property
    def document(self) -> dict[str, dict[str, str | int]]:
        """The error for scripts, on one line."""
        parts: dict[str, str | int] = {name: text for name, text in self._parts.items() if text}
        return {"error": {**parts, "exitCode": int(self.code)}}
