"""Restores the earlier levels of request logs, for `clients evidence stop` and at the end of `start`.

Called by `command.py` and `start.py`. A level is restored only if it is still the one that was set. A broker that is
away stays in the state file, and the command tells how to restore it later.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients.request_logger.target import LoggingTarget, address_of, tell_failure
from kafkafeatures.cli.shell.exit_codes import SEVERITY, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.core.clients.request_logging import LevelState, LoggingSwitch, SwitchedBroker, level_state
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.requests.request_log_level import request_log_level, set_request_log_level


async def stop(pool: Pool, target: LoggingTarget) -> Exit:
    """Restore all levels in the state file. Exit code 0 if none is left to restore."""
    switch = target.file.read()
    if switch is None:
        print(f"nothing to restore: {target.file.path} does not exist")
        return Exit.DONE
    return await restore(pool, target, switch)


async def restore(pool: Pool, target: LoggingTarget, switch: LoggingSwitch) -> Exit:
    """Restore the levels of `switch`, and keep in the state file those that could not be restored. Returns the most
    severe exit code.
    """
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
        tell(f"not restored: broker {ids}; once it is back: {target.stop_command}; a restart restores it as well")
    else:
        target.file.remove()
    return code


async def _restored(pool: Pool, target: LoggingTarget, broker: SwitchedBroker) -> Exit:
    """Restore one level, and print the outcome. DONE also means that nothing had to be restored."""
    node = target.brokers.get(broker.broker)
    if node is None or node.port < 0:
        tell(f"broker {broker.broker} is not registered")
        return Exit.UNREACHABLE
    level = await request_log_level(pool, broker.broker, address_of(node))
    if isinstance(level, Failure):
        return tell_failure(level)
    match level_state(broker, level):
        case LevelState.RESTORED:
            print(f"broker {broker.broker}: the request log is at {level} already")
            return Exit.DONE
        case LevelState.CHANGED:
            print(
                f"broker {broker.broker}: the request log is at {level}, neither {broker.level} as set nor "
                f"{broker.before} as before: changed outside this command, or by a restart; it is left so"
            )
            return Exit.DONE
        case LevelState.SET:
            level = await set_request_log_level(pool, broker.broker, address_of(node), broker.before)
    if isinstance(level, Failure):
        return tell_failure(level)
    if level != broker.before:
        tell(f"broker {broker.broker}: the request log is at {level}, although {broker.before} was set")
        return Exit.FAILED
    print(f"broker {broker.broker}: the request log is at {level} again")
    return Exit.DONE
