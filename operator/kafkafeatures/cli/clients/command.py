"""`kafkafeatures clients`: clients that break with a release of Kafka, by what brokers counted. Changes nothing."""

from __future__ import annotations

import argparse
import importlib
import re
from datetime import UTC, datetime
from pathlib import Path

from kafkafeatures.cli.cluster.connect import add_connection_flags
from kafkafeatures.cli.shell.output import add_output_flag

ACTIONS = {"check": "kafkafeatures.cli.clients.check"}
"""Each action, and the module that does it."""

DAYS = 35
_HOUR = 3_600_000
_UNITS = {"h": _HOUR, "d": 24 * _HOUR}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags for the release, the evidence, and the brokers that it has to cover."""
    parser.add_argument(
        "action", choices=tuple(ACTIONS),
        help="check: can the cluster go to a release, or do clients use API versions that the release lacks",
    )  # fmt: skip
    parser.add_argument("--release", required=True, type=_release, metavar="X", help="the release, such as 4.1")
    parser.add_argument(
        "--evidence", type=Path, required=True, metavar="DIR|FILE",
        help="metrics of the brokers as their exporters answered: files BROKER/TIME.prom, with the id of the broker "
        "and the time in seconds since 1970; folders of several clusters may stand around them",
    )  # fmt: skip
    parser.add_argument("--cluster", metavar="NAME", help="of several clusters in the evidence, the folder of this one")
    parser.add_argument(
        "--window", type=_window, default=DAYS * _UNITS["d"], metavar="35d",
        help=f"time that has to be free of old requests, in days or hours (default: {DAYS}d)",
    )  # fmt: skip
    parser.add_argument(
        "--at", type=_time, metavar="TIME",
        help="end of the window, such as 2026-11-28T12:00:00Z (default: now)",
    )  # fmt: skip
    parser.add_argument(
        "--log", type=Path, metavar="PATH",
        help="metadata log that says which brokers are registered, if the cluster is not asked",
    )  # fmt: skip
    add_connection_flags(parser, "cluster that says which brokers are registered")
    add_output_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    return int(importlib.import_module(ACTIONS[arguments.action]).run(arguments))


def _release(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,2})?", text):
        raise argparse.ArgumentTypeError(f"invalid release {text[:60]!r}: expected a release of Kafka, such as 4.1")
    return text


def _window(text: str) -> int:
    """A duration in ms."""
    match = re.fullmatch("([0-9]{1,4})([dh])", text)
    milliseconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not milliseconds:
        raise argparse.ArgumentTypeError(f"invalid window {text[:60]!r}: expected days or hours, such as 35d")
    return milliseconds


def _time(text: str) -> int:
    """A time in ms."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or not 1970 < time.year < 9000:
        raise argparse.ArgumentTypeError(f"invalid time {text[:60]!r}: expected one such as 2026-11-28T12:00:00Z")
    return round(time.astimezone(UTC).timestamp() * 1000)
