"""Rules for the level of Kafka's request log, which a command raises for a time: what may be set, and what is restored.

Pure. Called by the modules of `cli/clients/request_logger`. It decides:

- A broker whose level is as verbose already is left alone, so its level is not lowered at the end either.
- DEBUG logs every request, so it is set on one broker at a time, unless the user chose all of them (`--all`).
- INFO logs only requests of deprecated versions, so nothing on Kafka 4.x, which removed these (observed on 4.1).
- A level is restored only while it is the one that was set. Any other one was set outside this command, or comes from
  the configuration file, as the broker was restarted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""Levels that can be set at run time, the least verbose first (`LogLevelConfig.java`)."""
DEBUG, INFO = "DEBUG", "INFO"
LINE_BYTES = (1200, 1600)
"""Bytes of one logged request at DEBUG, measured: of a Produce with one record, and on average of mixed requests."""


class SwitchedBroker(Struct, frozen=True):
    """A broker whose level was set, or was about to be set when the command ended.

    before, level: the level before, and the one that was set.
    process: incarnation id of its process, which changes with a restart; empty where it is not known.
    """

    broker: int
    before: str
    level: str
    process: str = ""


class LoggingSwitch(Struct, frozen=True):
    """Brokers whose level one command has set. The command keeps this in a file, so that another one can restore them.

    begin, until: time of the first change, and time at which the levels are to be restored, in ms since 1970.
    """

    cluster_id: str
    begin: int
    until: int
    brokers: tuple[SwitchedBroker, ...]


class LevelState(StrEnum):
    """State of the level of a broker that a command has switched."""

    SET = "Set"
    """Still the level that the command has set."""
    RESTORED = "Restored"
    """The level of before, also if a restart of the broker brought it back."""
    CHANGED = "Changed"
    """Neither: another client has set it."""


def level_state(switched: SwitchedBroker, level: str) -> LevelState:
    """State of a broker's level. `level`: the one that the broker reports now."""
    if level == switched.level:
        return LevelState.SET
    return LevelState.RESTORED if level == switched.before else LevelState.CHANGED


def is_as_verbose(level: str, wanted: str) -> bool:
    """Tell whether `level` logs everything that the wanted level logs."""
    return level in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


def refusal(wanted: str, levels: Mapping[int, str], refusing: Sequence[int], *, is_for_all: bool) -> str:
    """Reason why the wanted level must not be set on these brokers; empty if it may be.

    levels: present level of each broker, by id.
    refusing: brokers that run Kafka 4.0 or newer, which refuse requests of removed versions instead of logging them.
    is_for_all: the user chose all brokers, not single ones by their id.
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
    """Size of the log at DEBUG in GB per hour, for requests of either size in `LINE_BYTES`."""
    least, most = (requests_per_second * 3600 * size / 1e9 for size in LINE_BYTES)
    return least, most
