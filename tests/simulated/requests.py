"""What a client asks of the simulated API server, what it answers, and what can go wrong in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks. `path` without the query."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: Any = None

    @property
    def writes(self) -> bool:
        """Whether it may change what is stored."""
        return self.method != "GET" and "dryRun" not in self.query


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answers. For a watch the body is a list: the events so far."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def reason(self) -> str:
        """The reason of the HTTP status line."""
        return _REASONS.get(self.status, "")


def refusal(status: int, message: str, **headers: str) -> Reply:
    """A Status object, as every error of an API server is one. `Retry_After` becomes Retry-After."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": status,
        "message": message,
        "reason": _REASONS.get(status, ""),
    }
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request. `reply` None: the connection is lost, after the request was `carried_out` or
    before. `lag`: a read shows what was there so many writes ago; nothing else goes wrong then.
    """

    reply: Reply | None = None
    carried_out: bool = False
    lag: int = 0


Faults = Callable[[Request], Fault | None]


def no_faults(request: Request) -> None:
    """All is well."""
