"""`kafkafeatures clients evidence start|status|stop`: switches the request log of brokers on for a time (KIP-412).

Called by `clients/command.py`, for a person; the operator does not use it. The steps are modules of their own in this
folder; `core/clients/request_logging.py` decides what may be set, and what is restored.
Exit code 0: done, 1: a broker did not take the level, 4: refused, 5: a broker is away, 130: interrupted, and restored.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from kafkafeatures.cli.clients.flags import flags_of, refuse_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

STEPS = ("start", "status", "stop")
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_LONGEST = 7 * 86_400  # seconds


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Flags for the brokers, the level, the time, and the file that says what to restore."""
    group.add_argument("--brokers", type=_ids, metavar="ID[,..]", help="brokers whose request log is switched")
    group.add_argument("--all", action="store_true", help="all brokers, also for debug")
    group.add_argument(
        "--level", choices=("info", "debug"),
        help="info: requests of deprecated versions, before Kafka 4.0; debug: every request",
    )  # fmt: skip
    group.add_argument(
        "--for", dest="duration", type=_duration, default=3600, metavar="1h",
        help="time after which the level of before is restored (default: 1h)",
    )  # fmt: skip
    group.add_argument(
        "--state", type=Path, metavar="FILE",
        help="file for the levels of before (default: by the id of the cluster, in $XDG_STATE_HOME/kafkafeatures)",
    )  # fmt: skip
    group.add_argument(
        "--scrapes", type=Path, metavar="DIR",
        help="scrapes of the brokers' metrics, as --evidence of clients check: they predict the size of the log",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Switch the request log on, show its levels, or restore them."""
    if len(arguments.operands) != 1 or arguments.operands[0] not in STEPS:
        raise CommandFailed(f"clients evidence: expected one of {', '.join(STEPS)}", Exit.USAGE)
    step = arguments.operands[0]
    if arguments.output != "table" and step != "status":
        raise CommandFailed(f"clients evidence {step}: -o {arguments.output}: only status has a document", Exit.USAGE)
    if step == "start":
        _check_flags(arguments)
    else:  # `status` and `stop` act on all that is in the state file
        reason = "it is a flag of clients evidence start"
        refuse_flags(f"clients evidence {step}", arguments, flags_of(add_arguments), ("state",), reason)
    from kafkafeatures.cli.cluster.connect import on_cluster

    return on_cluster(_run(arguments, step))


async def _run(arguments: argparse.Namespace, step: str) -> Exit:
    from kafkafeatures.cli.clients.request_logger import restore, start, status
    from kafkafeatures.cli.clients.request_logger.target import target_of
    from kafkafeatures.cli.cluster.connect import look, pool_of, settings_from_flags, settings_to_change

    settings = (settings_from_flags if step == "status" else settings_to_change)(arguments)
    target = target_of(arguments, await look(settings))
    async with pool_of(settings) as pool:
        if step == "status":
            return await status.show(arguments.output, pool, target)
        with target.file.locked():
            return await (start.start(arguments, pool, target) if step == "start" else restore.stop(pool, target))


def _check_flags(arguments: argparse.Namespace) -> None:
    if arguments.level is None:
        raise CommandFailed("clients evidence start: --level is required", Exit.USAGE)
    if arguments.all == (arguments.brokers is not None):
        raise CommandFailed("clients evidence start: expected --brokers ID[,..] or --all", Exit.USAGE)


def _ids(text: str) -> Sequence[int]:
    parts = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise argparse.ArgumentTypeError(f"invalid brokers {text[:60]!r}: expected ids, such as 1,2")
    return sorted({int(part) for part in parts})


def _duration(text: str) -> int:
    """A duration in seconds."""
    match = re.fullmatch("([0-9]{1,5})(s|min|h|d)", text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"invalid time {text[:60]!r}: expected up to 7d, such as 30min or 1h")
    return seconds
