"""The history of a migration from ZooKeeper by a metadata log: the modes of brokers, and the states of the migration.

Called by `kraftlog.rolls` with the records in order. A registration shows whether the broker runs in ZooKeeper mode
with the flag `zookeeper.metadata.migration.enable`; a broker in ZooKeeper mode without the flag does not register.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kraftlog.strips import Moment

Data = Mapping[str, Any]

MAX_CHANGES = 10_000
"""Most states that are kept: the latest ones. Of changes of modes, up to twice as many are kept. The number is that of
ten changes for each of a thousand nodes.
"""


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A change of a broker's mode. in_kraft: True if it runs in KRaft mode from this record on, False if in ZooKeeper
    mode with the flag, None if it is unregistered.
    """

    node_id: int
    in_kraft: bool | None
    at: Moment


@dataclass(frozen=True, slots=True)
class StateChange:
    """From this record on the migration is in this state, by its code: `kraftlog.image.ZkMigrationState`."""

    code: int
    at: Moment


@dataclass(frozen=True, slots=True)
class MigrationHistory:
    """Modes of brokers and states of the migration, in the order of the log, only where something changed."""

    modes: tuple[ModeChange, ...] = ()
    states: tuple[StateChange, ...] = ()


NO_MIGRATION = MigrationHistory()


class Modes:
    """Takes registrations of brokers, and states of the migration, in order."""

    def __init__(self) -> None:
        self._in_kraft: dict[int, bool] = {}  # current mode of each registered broker, by id
        self._modes: list[ModeChange] = []
        self._states: list[StateChange] = []

    def registered(self, data: Data, at: Moment) -> None:
        """Take the registration of a broker process."""
        id_, in_kraft = data["brokerId"], not data.get("isMigratingZkBroker", False)
        if self._in_kraft.get(id_) is not in_kraft:
            self._in_kraft[id_] = in_kraft
            self._note(ModeChange(id_, in_kraft, at))

    def unregistered(self, id_: int, at: Moment) -> None:
        """Take the removal of a broker's registration."""
        if self._in_kraft.pop(id_, None) is not None:
            self._note(ModeChange(id_, None, at))

    def reached(self, data: Data, at: Moment) -> None:
        """Take a state that the migration reached."""
        code = data["zkMigrationState"]
        if not self._states or self._states[-1].code != code:
            self._states.append(StateChange(code, at))
            del self._states[:-MAX_CHANGES]

    def finish(self) -> MigrationHistory:
        """The history so far."""
        return MigrationHistory(tuple(self._modes), tuple(self._states))

    def _note(self, change: ModeChange) -> None:
        self._modes.append(change)
        if len(self._modes) > 2 * MAX_CHANGES:  # rarely, as it moves the whole list
            del self._modes[:-MAX_CHANGES]
