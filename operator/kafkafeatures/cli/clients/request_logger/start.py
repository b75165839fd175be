"""`clients evidence start`: sets the request log of brokers to another level until the time is over or a signal comes.

Called by `command.py`. The earlier levels are on disk before any broker is changed. They are restored when the time is
over, and at Ctrl-C, SIGTERM and SIGHUP; after a crash by `clients evidence stop`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Mapping, Sequence

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.clients.request_logger.restore import restore
from kafkafeatures.cli.clients.request_logger.target import LoggingTarget, address_of, read_levels, tell_failure
from kafkafeatures.cli.clients.scrapes import read_scrapes
from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.cluster.connect import failed
from kafkafeatures.cli.shell.exit_codes import SEVERITY, CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import Scrape
from kafkafeatures.core.clients.request_logging import (
    INFO,
    LINE_BYTES,
    LoggingSwitch,
    SwitchedBroker,
    gigabytes_per_hour,
    is_as_verbose,
    refusal,
)
from kafkafeatures.core.facts.client_standing import refuses_old_versions
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.requests.request_log_level import set_request_log_level

_DEPRECATIONS_COMPLETE = 21
"""metadata.version 3.9-IV0: Kafka 3.9 logs at INFO whatever 4.x removed; earlier releases less."""

_EVER = EvidenceWindow(0, 1 << 62)
"""A window with all times."""
_REFUSALS_SHOWN = 5
"""Files that were not read, of which the reason is shown; the others are not mentioned."""


async def start(arguments: argparse.Namespace, pool: Pool, target: LoggingTarget) -> Exit:
    """Switch the levels, wait, and restore them. Raises CommandFailed if nothing may be switched."""
    if target.file.read() is not None:
        text = f"levels of before are still to be restored ({target.file.path}); run first: {target.stop_command}"
        raise CommandFailed(text, Exit.BLOCKED)
    wanted = arguments.level.upper()
    nodes = _selected(arguments, target)
    levels = await _levels(pool, nodes)
    refusing = sorted(id_ for id_, node in nodes.items() if refuses_old_versions(node.known_range_of(METADATA_VERSION)))
    if reason := refusal(wanted, levels, refusing, is_for_all=arguments.all):
        raise CommandFailed(reason, Exit.BLOCKED)
    _tell_expectations(arguments, wanted, nodes)
    switched = []
    for id_, level in levels.items():
        if is_as_verbose(level, wanted):
            print(f"broker {id_}: the request log is at {level} already, and is left so")
        else:
            switched.append(SwitchedBroker(id_, level, wanted, nodes[id_].incarnation))
    if not switched:
        return Exit.DONE
    begin = round(pool.environment.clock().timestamp() * 1000)
    switch = LoggingSwitch(target.cluster_id, begin, begin + arguments.duration * 1000, tuple(switched))
    target.file.write(switch)
    return await _switched(pool, target, switch)


async def _switched(pool: Pool, target: LoggingTarget, switch: LoggingSwitch) -> Exit:
    """Set the levels, wait, and restore them, whatever happens meanwhile."""
    work = asyncio.ensure_future(_set_and_wait(pool, target, switch))
    loop = asyncio.get_running_loop()
    # A signal that is ignored stays so: `nohup` ignores SIGHUP.
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, work.cancel)
    try:
        code = await work
    except asyncio.CancelledError:
        code = Exit.INTERRUPTED
    except BaseException:
        await restore(pool, target, switch)
        raise
    for number in numbers:  # a second signal ends the process, and the state file remains
        loop.remove_signal_handler(number)
    restored = await restore(pool, target, switch)
    return restored if restored is not Exit.DONE else code


async def _set_and_wait(pool: Pool, target: LoggingTarget, switch: LoggingSwitch) -> Exit:
    """Set the levels, and wait until the time is over; do not wait if any broker did not take its level."""
    codes = [await _set(pool, target, broker) for broker in switch.brokers]
    code = max(codes, key=SEVERITY.index)
    if code is Exit.DONE:
        print(f"until {format_minute(switch.until)} UTC; Ctrl-C restores the levels before. After a crash:")
        print(f"  {target.stop_command}", flush=True)
        await pool.environment.sleep((switch.until - switch.begin) / 1000)
    return code


async def _set(pool: Pool, target: LoggingTarget, broker: SwitchedBroker) -> Exit:
    level = await set_request_log_level(pool, broker.broker, address_of(target.brokers[broker.broker]), broker.level)
    if isinstance(level, Failure):
        return tell_failure(level)
    if level != broker.level:
        tell(f"broker {broker.broker}: the request log is at {level}, although {broker.level} was set")
        return Exit.FAILED
    print(f"broker {broker.broker}: the request log is at {level}, and was at {broker.before}", flush=True)
    return Exit.DONE


def _selected(arguments: argparse.Namespace, target: LoggingTarget) -> dict[int, Node]:
    if arguments.all:
        return dict(target.brokers)
    if missing := [id_ for id_ in arguments.brokers if id_ not in target.brokers]:
        registered = ", ".join(map(str, sorted(target.brokers)))
        raise CommandFailed(f"broker {missing[0]} is not registered; the cluster has {registered}", Exit.USAGE)
    return {id_: target.brokers[id_] for id_ in arguments.brokers}


async def _levels(pool: Pool, nodes: Mapping[int, Node]) -> dict[int, str]:
    """The current level of each broker. Raises CommandFailed if any cannot be read, before anything is changed."""
    levels = await read_levels(pool, nodes)
    for level in levels.values():
        if not isinstance(level, str):
            raise failed(level)
    return {id_: level for id_, level in levels.items() if isinstance(level, str)}


def _tell_expectations(arguments: argparse.Namespace, wanted: str, nodes: Mapping[int, Node]) -> None:
    """Tell the user what the log may lack at INFO, or how large it becomes at DEBUG."""
    if wanted == INFO:
        for id_, node in nodes.items():
            if _max_of(node) < _DEPRECATIONS_COMPLETE:
                tell(f"broker {id_} is older than Kafka 3.9: at INFO it may not log all versions that 4.x removed")
        return
    least, most = (size / 1000 for size in LINE_BYTES)
    rates = _rates(arguments) if arguments.scrapes is not None else {}
    for id_ in nodes:
        if id_ in rates:
            low, high = gigabytes_per_hour(rates[id_])
            tell(f"broker {id_}: expect {low:,.1f} to {high:,.1f} GB an hour, for {rates[id_]:,.0f} requests a second")
        else:
            hint = "" if arguments.scrapes is not None else "; --scrapes DIR predicts it"
            tell(f"broker {id_}: how much it will log is not known: {least} to {most} kB for each request{hint}")


def _rates(arguments: argparse.Namespace) -> dict[int, float]:
    """Requests a second of each broker, as far as the scrapes show it."""
    by_broker: dict[int, list[Scrape]] = {}
    files = read_scrapes(arguments.scrapes, arguments.cluster, _EVER, lambda key: True)
    for line in files.refused[:_REFUSALS_SHOWN]:
        tell(line)
    for scrape in files.scrapes:
        by_broker.setdefault(scrape.broker, []).append(scrape)
    return {id_: rate for id_, scrapes in by_broker.items() if (rate := _rate(scrapes)) is not None}


def _rate(scrapes: Sequence[Scrape]) -> float | None:
    """Requests a second between the last two scrapes of the last process."""
    last = max(scrapes, key=lambda scrape: scrape.time)
    earlier = [scrape for scrape in scrapes if scrape.start == last.start and scrape.time < last.time]
    if not earlier:
        return None
    first = max(earlier, key=lambda scrape: scrape.time)
    requests = sum(last.counters.values()) - sum(first.counters.values())
    return max(requests, 0.0) * 1000 / (last.time - first.time)


def _max_of(node: Node) -> int:
    """The highest metadata.version that a broker supports; 0 if it is not known."""
    supported = node.known_range_of(METADATA_VERSION)
    return 0 if supported is None else supported.max
