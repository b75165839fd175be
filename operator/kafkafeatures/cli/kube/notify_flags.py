"""Flags of `run` about notifications, and their environment variables."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kafkafeatures.cli.kube.variables import allowed_value, one_of
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
        help="notify people through the webhook whose URL is in this file (default: no notifications)",
    )
    parser.add_argument("--notify-format", choices=FORMATS, help="format of notifications (default: json)")
    parser.add_argument(
        "--notify-event",
        action="append",
        metavar="EVENT",
        help="event to notify of, such as Halted; can be repeated (default: all)",
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
    format_ = arguments.notify_format or one_of("KAFKAFEATURES_NOTIFY_FORMAT", FORMATS) or FORMATS[0]
    listed = filter(None, map(str.strip, os.environ.get("KAFKAFEATURES_NOTIFY_EVENTS", "").split(",")))
    source = "--notify-event" if arguments.notify_event else "KAFKAFEATURES_NOTIFY_EVENTS"
    names = arguments.notify_event or [*listed] or [*NotificationEvent]
    events = frozenset(NotificationEvent(allowed_value(source, name, [*NotificationEvent])) for name in names)
    sender = arguments.notify_sender or os.environ.get("KAFKAFEATURES_NOTIFY_SENDER", "")
    if len(sender) > MAX_SENDER or not sender.isprintable():
        problem = f"expected at most {MAX_SENDER} printable characters, not {sender[:60]!r}"
        raise CommandFailed(f"--notify-sender: {problem}", Exit.USAGE)
    variable = one_of("KAFKAFEATURES_NOTIFY_ALLOW_HTTP", ("true", "false"))
    if not url_file:
        return None
    return NotifySettings(url_file, format_, events, arguments.notify_allow_http or variable == "true", sender)
