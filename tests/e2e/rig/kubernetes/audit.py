"""What the API server was asked, by whom, and what it answered: its own audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.rig.process import wait_until

_PLAIN = re.compile(r"[\w:./-]+", re.ASCII)
"""What JSON has as it is."""

POLICY = Path(__file__).with_name("audit-policy.yaml")


@dataclass(frozen=True)
class Row:
    """One request that was answered. Without a resource (`/version`), `resource` is empty; `at` is when it came in."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    code: int
    agent: str
    uri: str
    at: datetime
    answered: datetime


class AuditLog:
    """Grows over all lives of the API server. Rows come shortly after the answers: wait for what is expected."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """Here; for `rows(since=...)`."""
        return self.path.stat().st_size if self.path.exists() else 0

    def rows(self, since: int = 0, **wanted: object) -> list[Row]:
        """Answered requests after a mark; `wanted` are fields of a row: rows(resource="pods", verb="delete")."""
        return self._read(since, wanted)[0]

    def wait_for(self, enough: Callable[[list[Row]], object], since: int = 0, **wanted: object) -> list[Row]:
        """The rows, as soon as they are `enough`."""
        found: list[Row] = []

        def there() -> object:
            nonlocal since
            new, since = self._read(since, wanted)
            found.extend(new)
            return enough(found)

        wait_until(f"rows of {wanted} in the audit log", there)
        return found

    def _read(self, since: int, wanted: Mapping[str, object]) -> tuple[list[Row], int]:
        """The lines of the log that are wanted, and where it ended."""
        if not self.path.exists():
            return [], since
        with self.path.open("rb") as file:
            file.seek(since)
            lines = [line for line in file if line.endswith(b"\n")]
        # Only what may be wanted is parsed: a roll makes megabytes, and is looked at many times a second.
        words = [
            f'"{value}"'.encode() for value in wanted.values() if isinstance(value, str) and _PLAIN.fullmatch(value)
        ]
        events = (json.loads(line) for line in lines if all(word in line for word in words))
        found = (_row(event) for event in events if event["stage"] == "ResponseComplete")
        chosen = [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]
        return chosen, since + sum(map(len, lines))


def _row(event: dict[str, Any]) -> Row:
    target = event.get("objectRef", {})
    return Row(
        verb=event["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        user=event["user"]["username"],
        code=event.get("responseStatus", {}).get("code", 0),
        agent=event.get("userAgent", ""),
        uri=event["requestURI"],
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        answered=datetime.fromisoformat(event["stageTimestamp"]),
    )
