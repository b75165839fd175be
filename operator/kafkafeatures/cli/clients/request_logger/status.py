"""`clients evidence status`: shows the current level of each broker's request log, the earlier one, and the state.

Called by `command.py`. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.clients.request_logger.state import KIND
from kafkafeatures.cli.clients.request_logger.target import LoggingTarget, read_levels
from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.log.words import show_table
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import console, print_document
from kafkafeatures.core.clients.request_logging import LevelState, LoggingSwitch, SwitchedBroker, level_state
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.words import format_time
from kafkafeatures.kafka.base.pool import Pool

NOT_SWITCHED, UNKNOWN = "NotSwitched", "Unknown"


class BrokerLogging(Struct, frozen=True):
    """A row. `level`: the current level, `before`: the one before `start`; each empty if it is not known. `state`: a
    `LevelState`, NOT_SWITCHED or UNKNOWN; `message`: the state in words.
    """

    broker: int
    level: str
    before: str
    state: str
    message: str


async def show(form: str, pool: Pool, target: LoggingTarget) -> Exit:
    """Show all brokers. Exit code 5 if the level of one is not known."""
    switch = target.file.read()
    levels = await read_levels(pool, {id_: node for id_, node in target.brokers.items() if node.port >= 0})
    rows = list(_rows(switch, target, levels))
    if form == "table":
        _draw(switch, target, rows, pool.environment.clock().timestamp() * 1000)
    else:
        print_document(_document(switch, target, rows), form)
    return Exit.UNREACHABLE if any(row.state == UNKNOWN for row in rows) else Exit.DONE


def _rows(
    switch: LoggingSwitch | None, target: LoggingTarget, levels: dict[int, str | Failure]
) -> Iterator[BrokerLogging]:
    switched = {broker.broker: broker for broker in switch.brokers} if switch is not None else {}
    for id_ in sorted({*target.brokers, *switched}):
        level, broker = levels.get(id_), switched.get(id_)
        before = broker.before if broker else ""
        if not isinstance(level, str):
            reason = "it is not registered" if level is None else level.message
            yield BrokerLogging(id_, "", before, UNKNOWN, f"not known: {reason}")
        elif broker is None:
            yield BrokerLogging(id_, level, "", NOT_SWITCHED, "not set by this command")
        else:
            state = level_state(broker, level)
            yield BrokerLogging(id_, level, before, state.value, _message(state, broker, target.brokers.get(id_)))


def _message(state: LevelState, broker: SwitchedBroker, node: Node | None) -> str:
    """The state in words. A restart is certain only if both incarnation ids are known, and differ."""
    has_restarted = node is not None and bool(node.incarnation) and node.incarnation != broker.process != ""
    match state:
        case LevelState.SET:
            return f"set to {broker.level}"
        case LevelState.RESTORED:
            cause = (
                "the broker has restarted"
                if has_restarted
                else "the broker has restarted, or the level was set back outside this command"
            )
            return f"{broker.level} is lost: {cause}"
        case LevelState.CHANGED:
            cause = "by a restart" if has_restarted else "outside this command or by a restart"
            return f"set to {broker.level}, and changed {cause}"


def _draw(switch: LoggingSwitch | None, target: LoggingTarget, rows: list[BrokerLogging], now: float) -> None:
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import line

    screen = console()
    cells = [(str(row.broker), row.level or "-", row.before or "-", row.message) for row in rows]
    show_table(screen, ("BROKER", "LEVEL", "BEFORE", "STATE"), cells)
    if switch is not None:
        verb = "was to end" if switch.until < now else "ends"
        screen.print()
        line(screen, Text(f"It {verb} at {format_minute(switch.until)} UTC. To restore it: {target.stop_command}"))


def _document(switch: LoggingSwitch | None, target: LoggingTarget, rows: list[BrokerLogging]) -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "clusterId": target.cluster_id,
        "begin": None if switch is None else format_time(switch.begin),
        "until": None if switch is None else format_time(switch.until),
        "stateFile": None if switch is None else str(target.file.path),
        "brokers": [
            {
                "id": row.broker,
                "level": row.level or None,
                "before": row.before or None,
                "state": row.state,
                "message": row.message,
            }
            for row in rows
        ],
    }
