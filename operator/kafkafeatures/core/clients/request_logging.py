"""The level of the request log, switched for a time: what is set, and what is restored. Pure.

Called by the modules of `cli/clients/request_logger`. It decides:

- A level that is as verbose already is left alone, so it is not lowered at the end either.
- DEBUG logs every request: of one broker at a time, unless all are wanted.
- INFO logs only requests of deprecated versions. Kafka 4.x has none: it removed them (seen on 4.1).
- A level is restored only while it is the one that was set. Another one was set outside this command, or is that
  of the configuration file of a broker that has restarted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""Levels that can be set at run time, the least verbose first (`LogLevelConfig.java`)."""
DEBUG, INFO = "DEBUG", "INFO"
LINE_BYTES = (1200, 1600)
"""Bytes of a line at DEBUG, from a Produce of one record to the mean of mixed requests (measured)."""


class SwitchedBroker(Struct, frozen=True):
    """A broker whose level was set, or was about to be. `process`: the incarnation of its process; empty where it is
    not known.
    """

    broker: int
    before: str
    level: str
    process: str = ""


class LoggingSwitch(Struct, frozen=True):
    """What a command has switched. `begin`, `until`: in ms."""

    cluster_id: str
    begin: int
    until: int
    brokers: tuple[SwitchedBroker, ...]


class LevelState(StrEnum):
    """State of a level that was set."""

    SET = "Set"
    RESTORED = "Restored"
    """The level of before, as after a restart of the broker."""
    CHANGED = "Changed"


def level_state(switched: SwitchedBroker, level: str) -> LevelState:
    """The state of a broker that gives this level now."""
    if level == switched.level:
        return LevelState.SET
    return LevelState.RESTORED if level == switched.before else LevelState.CHANGED


def is_as_verbose(level: str, wanted: str) -> bool:
    """Tell whether a level logs all that the wanted one does."""
    return level in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


def refusal(wanted: str, levels: Mapping[int, str], refusing: Sequence[int], *, is_for_all: bool) -> str:
    """Reason why these levels are not switched; empty if they may be. `levels`: by broker; `refusing`: the brokers
    that run Kafka 4.0 or newer.
    """
    if wanted == INFO and refusing:
        return (
            f"{_brokers(refusing)} {'run' if len(refusing) > 1 else 'runs'} Kafka 4.0 or newer, which logs nothing at "
            "INFO, also of a client that breaks; use --level debug"
        )
    if wanted == DEBUG and len(levels) > 1 and not is_for_all:
        return (
            f"DEBUG logs every request, and slows a broker down; of {len(levels)} brokers at once only with --all: "
            "name one broker with --brokers"
        )
    for broker, level in sorted(levels.items()):
        if level not in LEVELS:
            return f"broker {broker} has level {level}, which cannot be set again at run time (KIP-412)"
    return ""


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def gigabytes_per_hour(requests_per_second: float) -> tuple[float, float]:
    """The least and the most that DEBUG logs of so many requests, in GB an hour."""
    least, most = (requests_per_second * 3600 * size / 1e9 for size in LINE_BYTES)
    return least, most
