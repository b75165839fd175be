"""Format of log lines: JSON in a pod, text on a terminal. A line about a resource has its namespace and name."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter

_FIELDS = {"asctime": "timestamp", "levelname": "severity", "name": "logger"}


def configure(kind: str | None, level: str = "info") -> None:
    """Configure logging. Kopf, aiohttp and the Kubernetes client log nothing below a warning.

    kind: json or text; None: text if stderr is a terminal, else json.
    level: info, warning or error.
    """
    kind = kind or ("text" if sys.stderr.isatty() else "json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=_FIELDS)
        if kind == "json"
        else _Text("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("kopf", "aiohttp", "kubernetes"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))


class _Text(logging.Formatter):
    """Formatter that adds the resource to the message, such as "InSync: ... [kafka/orders]"."""

    def format(self, record: logging.LogRecord) -> str:
        resource = getattr(record, "resource", "")
        about = f" [{getattr(record, 'namespace', '')}/{resource}]" if resource else ""
        return super().format(record).replace(record.getMessage(), f"{record.getMessage()}{about}", 1)
