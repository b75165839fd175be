"""What the API server was asked, by whom, and what it answered: its own audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.rig.cluster import wait_until

# Reading by the cluster's own parts is most of the traffic and none of the interest.
_READING = ["get", "list", "watch"]
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"], "verbs": _READING},
        {
            "level": "None",
            "users": [
                "system:apiserver",
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:kube-proxy",
            ],
            "verbs": _READING,
        },
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "Metadata"},
    ],
}


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
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(since)
            events = (json.loads(line) for line in file if line.endswith(b"\n"))
            found = [_row(event) for event in events if event["stage"] == "ResponseComplete"]
        return [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]

    def wait_for(self, enough: Callable[[list[Row]], object], since: int = 0, **wanted: object) -> list[Row]:
        """The rows, as soon as they are `enough`."""
        found: list[Row] = []

        def there() -> object:
            found[:] = self.rows(since, **wanted)
            return enough(found)

        wait_until(f"rows of {wanted} in the audit log", there)
        return found


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
