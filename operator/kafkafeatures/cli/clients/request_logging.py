"""`kafkafeatures clients evidence start|status|stop`: the request log of brokers, switched on for a time (KIP-412).

Called by `command.py`; a person's command, which nothing of the operator calls. The level of before is on the disk
before a broker is told anything, and is restored when the time is over, at Ctrl-C, SIGTERM and SIGHUP, and after a
crash by `stop`. `core/clients/request_logging.py` decides what may be set and what is restored.
Exit code 0: done, 1: a broker did not take the level, 4: refused, 5: a broker is away, 130: interrupted, and restored.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import API_VERSION, METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients.logging_state import KIND, SwitchFile, default_path
from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.shell.exit_codes import SEVERITY, CommandFailed, Exit
from kafkafeatures.cli.shell.output import console, print_document, tell
from kafkafeatures.core.clients.request_logging import (
    DEBUG,
    INFO,
    LINE_BYTES,
    LevelState,
    LoggingSwitch,
    SwitchedBroker,
    gigabytes_per_hour,
    is_as_verbose,
    level_state,
    refusal,
)

if TYPE_CHECKING:
    from kafkafeatures.core.clients.evidence import Scrape
    from kafkafeatures.core.facts.observation import Node
    from kafkafeatures.core.facts.readings import Failure
    from kafkafeatures.kafka.base.pool import Pool
    from kafkafeatures.kafka.base.settings import Address

STEPS = ("start", "status", "stop")
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_LONGEST = 7 * 86_400
_REMOVED_OLD_VERSIONS = 7
"""metadata.version 3.3-IV3, the lowest that Kafka 4.x supports: 3.x supports lower ones as well."""
_DEPRECATIONS_COMPLETE = 21
"""metadata.version 3.9-IV0: Kafka 3.9 logs at INFO whatever 4.x removed; earlier releases less."""


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
    """Start, show or stop it."""
    from kafkafeatures.cli.cluster.connect import on_cluster

    if len(arguments.operands) != 1 or arguments.operands[0] not in STEPS:
        raise CommandFailed(f"clients evidence: expected one of {', '.join(STEPS)}", Exit.USAGE)
    step = arguments.operands[0]
    if arguments.output != "table" and step != "status":
        raise CommandFailed(f"clients evidence {step}: -o {arguments.output}: only status has a document", Exit.USAGE)
    if step == "start":
        _check_flags(arguments)
    return on_cluster(_run(arguments, step))


class _Target(Struct, frozen=True):
    """The cluster, the brokers that it lists now, and the file of what was switched."""

    cluster_id: str
    brokers: Mapping[int, Node]
    file: SwitchFile
    connection_flags: str


async def _run(arguments: argparse.Namespace, step: str) -> Exit:
    from kafkafeatures.cli.cluster.connect import look, pool_of, settings_from_flags

    settings = settings_from_flags(arguments)
    target = _target(arguments, await look(settings))
    async with pool_of(settings) as pool:
        match step:
            case "start":
                with target.file.locked():
                    return await _start(arguments, pool, target)
            case "stop":
                with target.file.locked():
                    return await _stop(pool, target)
            case _:
                return await _show(arguments, pool, target)


def _target(arguments: argparse.Namespace, observation: object) -> _Target:
    from kafkafeatures.cli.cluster.connect import flags_of
    from kafkafeatures.core.facts.observation import Known, Observation
    from kafkafeatures.core.facts.readings import Role

    assert isinstance(observation, Observation)
    if not isinstance(observation.cluster_id, Known):
        text = f"the id of the cluster is not known: {observation.cluster_id.failure}"
        raise CommandFailed(text, Exit.UNREACHABLE)
    cluster_id = observation.cluster_id.value
    brokers = {node.id: node for node in observation.nodes if Role.BROKER in node.roles}
    path = arguments.state if arguments.state is not None else default_path(cluster_id)
    flags = flags_of(arguments) + ("" if arguments.state is None else f" --state {arguments.state}")
    return _Target(cluster_id, brokers, SwitchFile(path, cluster_id), flags)


# --- start ---


async def _start(arguments: argparse.Namespace, pool: Pool, target: _Target) -> Exit:
    if target.file.read() is not None:
        text = f"levels of before are still to be restored ({target.file.path}); run first: {_stop_command(target)}"
        raise CommandFailed(text, Exit.BLOCKED)
    wanted = arguments.level.upper()
    nodes = _selected(arguments, target)
    levels = await _levels(pool, nodes)
    refusing = sorted(id_ for id_, node in nodes.items() if _min_of(node) >= _REMOVED_OLD_VERSIONS)
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


async def _switched(pool: Pool, target: _Target, switch: LoggingSwitch) -> Exit:
    """Set the levels, wait, and restore them, whatever happens meanwhile."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    code = Exit.DONE
    try:
        for broker in switch.brokers:
            code = max(code, await _set(pool, target, broker), key=SEVERITY.index)
        if code is Exit.DONE:
            print(f"until {format_minute(switch.until)} UTC; Ctrl-C restores the levels before. After a crash:")
            print(f"  {_stop_command(target)}", flush=True)
            await pool.environment.sleep((switch.until - switch.begin) / 1000)
    except asyncio.CancelledError:
        task.uncancel()
        code = Exit.INTERRUPTED
    restored = await _restore(pool, target, switch)
    return restored if restored is not Exit.DONE else code


async def _set(pool: Pool, target: _Target, broker: SwitchedBroker) -> Exit:
    from kafkafeatures.core.facts.readings import Failure
    from kafkafeatures.kafka.requests.request_log_level import set_request_log_level

    level = await set_request_log_level(pool, broker.broker, _address(target.brokers[broker.broker]), broker.level)
    if isinstance(level, Failure):
        return _told(level)
    if level != broker.level:
        tell(f"broker {broker.broker}: the request log is at {level}, although {broker.level} was set")
        return Exit.FAILED
    print(f"broker {broker.broker}: the request log is at {level}, and was at {broker.before}", flush=True)
    return Exit.DONE


def _selected(arguments: argparse.Namespace, target: _Target) -> dict[int, Node]:
    if arguments.all:
        return dict(target.brokers)
    if missing := [id_ for id_ in arguments.brokers if id_ not in target.brokers]:
        registered = ", ".join(map(str, sorted(target.brokers)))
        raise CommandFailed(f"broker {missing[0]} is not registered; the cluster has {registered}", Exit.USAGE)
    return {id_: target.brokers[id_] for id_ in arguments.brokers}


async def _levels(pool: Pool, nodes: Mapping[int, Node]) -> dict[int, str]:
    """The level of each. Raises CommandFailed if one cannot be read: then nothing is changed."""
    from kafkafeatures.cli.cluster.connect import failed

    levels = await _readings(pool, nodes)
    for level in levels.values():
        if not isinstance(level, str):
            raise failed(level)
    return {id_: level for id_, level in levels.items() if isinstance(level, str)}


async def _readings(pool: Pool, nodes: Mapping[int, Node]) -> dict[int, str | Failure]:
    from kafkafeatures.kafka.requests.request_log_level import request_log_level

    readings = await asyncio.gather(*(request_log_level(pool, id_, _address(node)) for id_, node in nodes.items()))
    return dict(zip(nodes, readings, strict=True))


def _tell_expectations(arguments: argparse.Namespace, wanted: str, nodes: Mapping[int, Node]) -> None:
    """What the log will have, and how much."""
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
    """Requests a second of each broker, by its last process with two scrapes."""
    from kafkafeatures.cli.clients.scrapes import read_scrapes

    by_broker: dict[int, list[Scrape]] = {}
    for scrape in read_scrapes(arguments.scrapes, arguments.cluster, 1 << 62).scrapes:
        by_broker.setdefault(scrape.broker, []).append(scrape)
    rates = {}
    for id_, scrapes in by_broker.items():
        *_, last = scrapes = sorted(scrapes, key=lambda scrape: scrape.time)
        earlier = [scrape for scrape in scrapes if scrape.start == last.start and scrape.time < last.time]
        if earlier:
            first = earlier[-1]
            requests = sum(last.counters.values()) - sum(first.counters.values())
            rates[id_] = max(requests, 0.0) * 1000 / (last.time - first.time)
    return rates


# --- stop ---


async def _stop(pool: Pool, target: _Target) -> Exit:
    switch = target.file.read()
    if switch is None:
        print(f"nothing to restore: {target.file.path} does not exist")
        return Exit.DONE
    return await _restore(pool, target, switch)


async def _restore(pool: Pool, target: _Target, switch: LoggingSwitch) -> Exit:
    """Restore what was set and still is. A broker that is away stays in the file."""
    code = Exit.DONE
    remaining = []
    for broker in switch.brokers:
        outcome = await _restored(pool, target, broker)
        if outcome is not Exit.DONE:
            remaining.append(broker)
            code = max(code, outcome, key=SEVERITY.index)
    if remaining:
        target.file.write(replace(switch, brokers=tuple(remaining)))
        ids = ", ".join(str(broker.broker) for broker in remaining)
        tell(f"not restored: broker {ids}; once it is back: {_stop_command(target)}; a restart restores it as well")
    else:
        target.file.remove()
    return code


async def _restored(pool: Pool, target: _Target, broker: SwitchedBroker) -> Exit:
    from kafkafeatures.core.facts.readings import Failure
    from kafkafeatures.kafka.requests.request_log_level import request_log_level, set_request_log_level

    node = target.brokers.get(broker.broker)
    if node is None or node.port < 0:
        tell(f"broker {broker.broker} is not registered")
        return Exit.UNREACHABLE
    level = await request_log_level(pool, broker.broker, _address(node))
    if isinstance(level, Failure):
        return _told(level)
    match level_state(broker, level):
        case LevelState.RESTORED:
            print(f"broker {broker.broker}: the request log is at {level} already: restarted, or restored by somebody")
            return Exit.DONE
        case LevelState.CHANGED:
            print(
                f"broker {broker.broker}: the request log is at {level}, neither {broker.level} as set nor "
                f"{broker.before} as before: changed by somebody else, or restarted; it is left so"
            )
            return Exit.DONE
        case LevelState.SET:
            level = await set_request_log_level(pool, broker.broker, _address(node), broker.before)
    if isinstance(level, Failure):
        return _told(level)
    if level != broker.before:
        tell(f"broker {broker.broker}: the request log is at {level}, although {broker.before} was set")
        return Exit.FAILED
    print(f"broker {broker.broker}: the request log is at {level} again")
    return Exit.DONE


# --- status ---


async def _show(arguments: argparse.Namespace, pool: Pool, target: _Target) -> Exit:
    from kafkafeatures.core.facts.readings import Failure

    switch = target.file.read()
    switched = {broker.broker: broker for broker in switch.brokers} if switch is not None else {}
    levels = await _readings(pool, {id_: node for id_, node in target.brokers.items() if node.port >= 0})
    rows = {id_: _row(levels.get(id_), switched.get(id_), target.brokers.get(id_)) for id_ in {*levels, *switched}}
    if arguments.output != "table":
        document = {
            "apiVersion": API_VERSION, "kind": KIND, "clusterId": target.cluster_id,
            "until": None if switch is None else format_minute(switch.until),
            "stateFile": str(target.file.path) if switch is not None else None,
            "brokers": [
                {"id": id_, **dict(zip(("level", "before", "state"), rows[id_], strict=True))} for id_ in sorted(rows)
            ],
        }  # fmt: skip
        print_document(document, arguments.output)
    else:
        _draw(switch, target, {id_: rows[id_] for id_ in sorted(rows)}, pool.environment.clock().timestamp() * 1000)
    return Exit.UNREACHABLE if any(isinstance(level, Failure) for level in levels.values()) else Exit.DONE


def _row(
    level: str | Failure | None, switched: SwitchedBroker | None, node: Node | None
) -> tuple[str | None, str | None, str]:
    """The level now, that of before, and the state in words."""
    if level is None:
        return None, switched.before if switched else None, "not registered"
    if not isinstance(level, str):
        return None, switched.before if switched else None, f"not known: {level.message}"
    if switched is None:
        return level, None, "as configured, or set by somebody else"
    has_restarted = node is not None and bool(node.incarnation) and node.incarnation != switched.process != ""
    match level_state(switched, level):
        case LevelState.SET:
            state = f"set to {switched.level}"
        case LevelState.RESTORED:
            state = f"{switched.level} is lost: " + ("the broker restarted" if has_restarted else "restarted, or set back")
        case LevelState.CHANGED:
            state = f"set to {switched.level}, and changed by somebody else" + (
                " or by a restart" if has_restarted else ""
            )
    return level, switched.before, state


def _draw(
    switch: LoggingSwitch | None, target: _Target, rows: Mapping[int, tuple[str | None, str | None, str]], now: float
) -> None:
    from rich.text import Text

    from kafkafeatures.cli.log.words import show_table
    from kafkafeatures.cli.shell.indented import line

    screen = console()
    cells = [(str(id_), level or "-", before or "-", state) for id_, (level, before, state) in rows.items()]
    show_table(screen, ("BROKER", "LEVEL", "BEFORE", "STATE"), cells)
    if switch is not None:
        verb = "was to end" if switch.until < now else "ends"
        screen.print()
        line(screen, Text(f"It {verb} at {format_minute(switch.until)} UTC. To restore it: {_stop_command(target)}"))


# --- words and values ---


def _check_flags(arguments: argparse.Namespace) -> None:
    if arguments.level is None:
        raise CommandFailed("clients evidence start: --level is required", Exit.USAGE)
    if arguments.all == (arguments.brokers is not None):
        raise CommandFailed("clients evidence start: expected --brokers ID[,..] or --all", Exit.USAGE)


def _told(failure: Failure) -> Exit:
    """Tell a failure, and return its exit code."""
    from kafkafeatures.cli.cluster.connect import failed

    error = failed(failure)
    tell(str(error))
    return error.code


def _stop_command(target: _Target) -> str:
    return f"kafkafeatures clients evidence stop {target.connection_flags.strip()}"


def _address(node: Node) -> Address:
    from kafkafeatures.kafka.base.settings import Address

    return Address(node.host, node.port)


def _min_of(node: Node) -> int:
    """Its lowest metadata.version; 0 if it is not known."""
    supported = node.known_range_of(METADATA_VERSION)
    return 0 if supported is None else supported.min


def _max_of(node: Node) -> int:
    supported = node.known_range_of(METADATA_VERSION)
    return 0 if supported is None else supported.max


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
