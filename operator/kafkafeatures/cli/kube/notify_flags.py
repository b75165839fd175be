"""Flags of `run` about notifications, and their environment variables."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

if TYPE_CHECKING:
    from kafkafeatures.notify.settings import NotifySettings

FORMATS = ("json", "slack", "teams")
"""Names of the formats in `notify/formats.py`, without an import of it."""
MAX_SENDER = 100


def add_notify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--notify-url-file",
        metavar="FILE",
        help="notify people through the webhook whose URL is in this file (default: nobody is notified)",
    )
    parser.add_argument("--notify-format", choices=FORMATS, help="format of notifications (default: json)")
    parser.add_argument(
        "--notify-event", action="append", metavar="EVENT", help="notify of this event; can be repeated (default: all)"
    )
    parser.add_argument("--notify-sender", metavar="TEXT", help="begin each notification with this name of the cluster")
    parser.add_argument(
        "--notify-allow-http", action="store_true", help="allow a webhook without TLS that is on another host"
    )


def notify_settings(arguments: argparse.Namespace) -> NotifySettings | None:
    """Settings of notifications; None without a URL, but the other flags are checked anyway. Raises CommandFailed."""
    from kafkafeatures.core.report.notifications import NotificationEvent
    from kafkafeatures.notify.settings import NotifySettings

    url_file = arguments.notify_url_file or os.environ.get("KAFKAFEATURES_NOTIFY_URL_FILE", "")
    format_ = arguments.notify_format or os.environ.get("KAFKAFEATURES_NOTIFY_FORMAT") or FORMATS[0]
    if format_ not in FORMATS:
        raise _invalid("KAFKAFEATURES_NOTIFY_FORMAT", format_, FORMATS)
    variable = os.environ.get("KAFKAFEATURES_NOTIFY_EVENTS", "")
    names = (
        arguments.notify_event
        or [name.strip() for name in variable.split(",") if name.strip()]
        or list(NotificationEvent)
    )
    for name in names:
        if all(name != event for event in NotificationEvent):
            source = "--notify-event" if arguments.notify_event else "KAFKAFEATURES_NOTIFY_EVENTS"
            raise _invalid(source, name, tuple(NotificationEvent))
    sender = arguments.notify_sender or os.environ.get("KAFKAFEATURES_NOTIFY_SENDER", "")
    if len(sender) > MAX_SENDER or not sender.isprintable():
        raise CommandFailed(
            f"--notify-sender: expected at most {MAX_SENDER} printable characters, found {len(sender)}", Exit.USAGE
        )
    allow_http = arguments.notify_allow_http or _is_true("KAFKAFEATURES_NOTIFY_ALLOW_HTTP")
    if not url_file:
        return None
    return NotifySettings(url_file, format_, frozenset(map(NotificationEvent, names)), allow_http, sender)


def _is_true(variable: str) -> bool:
    text = os.environ.get(variable) or "false"
    if text not in ("true", "false"):
        raise _invalid(variable, text, ("true", "false"))
    return text == "true"


def _invalid(source: str, text: str, allowed: tuple[str, ...]) -> CommandFailed:
    *first, last = allowed
    expected = f"{', '.join(first)} or {last}"
    return CommandFailed(f"{source}: invalid value {text[:60]!r}; expected {expected}", Exit.USAGE)
