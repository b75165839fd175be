"""One random history of a migration from ZooKeeper to KRaft: a document, a cluster, a person, and all that goes wrong.

The person restarts what the status asks for, changes the file before, and withdraws and asks anew at any moment; so
each step of the operator meets a cluster that is not the one of a minute ago. In the end faults stop, and the document
asks for something that can be reached. Made by `simulation.simulate` for one seed out of `MIGRATIONS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.cluster import Faults
from tests.reliability.kafka import Roads
from tests.reliability.migration_encores import encore_of
from tests.reliability.migration_facts import modes
from tests.reliability.migration_person import LATE
from tests.reliability.migration_records import FINALIZED, MIGRATION, Aimed, Mode
from tests.reliability.migration_scene import LOWERS, NAME, NAMESPACE
from tests.reliability.migration_slips import LONGEST, Slips
from tests.reliability.records import History, Jumped

MIGRATIONS, FIRST = 32, 17
"""One history out of so many is about a migration. The first of them is odd, so that some are watched (`branches.py`)
and none is about rolls.
"""
NEXT: Mapping[str, tuple[str, ...]] = {
    "PreMigration": ("DualWrite", "DualWrite", "RolledBack"),
    "DualWrite": ("Finalized", "RolledBack"),
    "Finalized": ("DualWrite",),
    "RolledBack": ("DualWrite", "DualWrite", "PreMigration"),
}
"""What a document may ask for after what."""
CONSENTS = (
    [LOWERS],
    ["zk-finalize"],
    ["zk-finalize"],
    ["zk-rollback-lossy"],
    ["zk-rollback-lossy", "zk-controllers-stopped"],
)
"""What a document may consent to."""
SETTLES_WITHIN = 2_400.0
"""Virtual seconds after the last fault: two rolls of five brokers, by a person who looks every few seconds."""


def is_migration(seed: int) -> bool:
    """Tell whether the history of this seed is about a migration."""
    return seed % MIGRATIONS == FIRST


class MigrationHistory(Slips):
    """A history of a migration while it is simulated."""

    async def live(self) -> History:
        """Run the history from its beginning to its end."""
        self.server.create(NAMESPACE, NAME, self.spec(self.random.choice(("DualWrite", "DualWrite", "PreMigration"))))
        self.begin()
        person = self.loop.create_task(self.helps_on())
        try:
            for _ in range(self.random.randrange(12, 40)):
                await self.wait(self.random.choice((1.0, 10.0, 60.0, 120.0)) * self.random.random())
                self._something_happens()
                await self.revive()
            await self._calm()
        finally:
            person.cancel()
            with suppress(asyncio.CancelledError):
                await person
            for process in self.processes:
                await process.kill()
        self.history.seconds = self.loop.time()
        return self.history

    # --- what happens ---

    def _something_happens(self) -> None:
        acts: tuple[tuple[int, Callable[[], None]], ...] = (
            (10, self._nothing),
            (4, self._another_aim),
            (3, self._a_node_dies),
            (2, self._a_session_ends),
            (2, self.a_write_is_lost),
            (2, self._writes_stall),
            (2, self._nodes_are_hidden),
            (2, self._finalized_without_a_consent),
            (2, self.a_topic_is_made),
            (3, self._consents_change),
            (2, self._the_approval_is_withdrawn),
            (2, self._held_or_released),
            (1, self._the_status_is_lost),
            (1, self._the_clock_jumps),
            (2, self._the_operator_is_gone),
        )
        slips: tuple[tuple[int, Callable[[], None]], ...] = (
            (2, self.a_node_has_another_file),
            (2, self.a_controller_loses_the_flag),
            (1, self.a_template_comes_early),
            (2, self.another_chroot),
            (2, self.controllers_are_misnamed),
            (2, self.a_controller_is_overlooked),
            (2, self.the_migration_is_taken_out),
            (1, self.nobody_looks),
        )
        acts += slips if self.is_careless else ()
        act = self.random.choices([one for _, one in acts], [weight for weight, _ in acts])[0]
        self.note(act.__name__.strip("_"))
        act()

    def _nothing(self) -> None:
        """Lets time pass."""

    def _another_aim(self) -> None:
        """Another phase; to finalize more often than not once dual write is reached."""
        choice = NEXT[self.desired]
        truth = self.cluster.truth()
        if "Finalized" in choice and not truth.is_dual_write and self.random.random() < 0.8:
            choice = tuple(one for one in choice if one != "Finalized")
        if self.random.random() < 0.7 if truth.is_dual_write or self.desired == "Finalized" else True:
            self.ask_for(self.random.choice(choice))

    def _finalized_without_a_consent(self) -> None:
        """A person did not read what that takes; only once dual write is reached."""
        if self.cluster.truth().is_dual_write:
            self.set(consents=[])
            self.ask_for("Finalized")

    def _a_node_dies(self) -> None:
        keys = [key for key in sorted(self.cluster.files) if self.cluster.runs(*key)]
        if leader := (self.cluster.quorum.active if self.cluster.quorum is not None else None):
            keys += [(Role.CONTROLLER, leader)] * 3
        role, id_ = self.random.choice(keys)
        self.cluster.stop(role, id_, kill=self.random.random() < 0.6)
        self.loop.call_later(60.0 * self.random.random(), self.comes_back, role, id_)

    def comes_back(self, role: Role, id_: int) -> None:
        """The owner of a node starts it again once it has ended, unless it is to be stopped."""
        self.cluster.catch_up()
        if self.cluster.is_ending(role, id_):
            self.loop.call_later(5.0, self.comes_back, role, id_)
        if (role, id_) not in self.stopped and not self.cluster.runs(role, id_):
            self.cluster.start(role, id_)

    def _a_session_ends(self) -> None:
        """The session of a broker in ZooKeeper ends, although its process continues."""
        self.cluster.end_session(self.random.choice(self.cluster.broker_ids))

    def _writes_stall(self) -> None:
        """For some time the quorum does not reach ZooKeeper."""
        self.fails(Faults(stalls=True, epoch=self.cluster.faults.epoch), 5.0 + 60.0 * self.random.random())

    def _nodes_are_hidden(self) -> None:
        """The operator alone loses the controllers, or one node; at times the quorum loses ZooKeeper with it."""
        nodes = sorted(self.cluster.files)
        controllers = [one for one in nodes if one[0] is Role.CONTROLLER]
        self.cluster.hidden = frozenset(controllers if self.random.random() < 0.7 else [self.random.choice(nodes)])
        if self.random.random() < 0.5:
            self._writes_stall()
        self.loop.call_later(150.0 * self.random.random(), self._nodes_are_seen)

    def _nodes_are_seen(self) -> None:
        self.cluster.hidden = frozenset()

    def _consents_change(self) -> None:
        self.set(consents=self.random.choice(CONSENTS))

    def _the_approval_is_withdrawn(self) -> None:
        def withdrawn(one: dict[str, Any]) -> None:
            one["spec"]["approval"] = {"policy": one["spec"].get("approval", {}).get("policy", "Always")}
            one["metadata"].pop("annotations", None)

        self.edit(withdrawn)

    def _held_or_released(self) -> None:
        """Held for a while."""
        self.set(suspend=True)
        self.loop.call_later(40.0 * self.random.random(), lambda: self.set(suspend=False))

    def _the_status_is_lost(self) -> None:
        self.server.edit_status(NAMESPACE, NAME, lambda one: one.pop("status", None))

    def _the_clock_jumps(self) -> None:
        self.skew = timedelta(seconds=self.random.choice((0, 0, 400, -400, 90_000)))
        self.history.records.append(Jumped(self.loop.time()))

    def _the_operator_is_gone(self) -> None:
        for process in self.processes:
            process.end()

    # --- the end ---

    async def _calm(self) -> None:
        """Stop all faults, and let the document ask for a state that can be reached."""
        self.note("calm")
        for field in ("dies", "lost_before", "lost_after", "refused", "stale", "unseen", "late", "slow"):
            setattr(self.weather, field, 0.0)
        self.weather.roads = Roads()
        self.skew, self.cluster.stale, self.cluster.hidden = timedelta(0), 0.0, frozenset()
        self.follows_advice, self.git_is_late = True, 0.0
        self.cluster.faults = Faults(epoch=self.cluster.faults.epoch)
        for process in self.processes:
            await process.kill()
        self.processes.clear()
        self.addresses_are_put_right()
        self.files_are_put_right()
        await self.wait(3 * LONGEST)  # what was to be started again has been
        for key in sorted(self.cluster.files):
            self.comes_back(*key) if key[0] is Role.BROKER or self.cluster.quorum is not None else None
        await self.wait(60.0)
        self.begin()
        await self._encore()
        for desired, consents in self._aims():
            self.aim_at(desired, consents)
            self._aim(desired, over=False)
            await self.until(self._is_settled)
            self._aim(desired, over=True)
        await self.wait(60.0)

    async def _encore(self) -> None:
        """Let the migration reach dual write, if possible, and run the encore; then repair what it leaves wrong."""
        encore = encore_of(self)
        if encore is None:
            return
        self.note(f"encore: {encore.__name__}")
        truth = self.cluster.truth()
        if truth.state is None and (truth.is_kraft or Mode.FLAGGED in truth.brokers.values()):
            self.aim_at("RolledBack", [])
            await self.until(self._is_settled)
        self.aim_at("DualWrite", [])
        if await self.until(lambda: self._is_settled() and self.cluster.truth().is_dual_write):
            await encore(self)
        self.git_is_late, self.late = 0.0, LATE
        self.addresses_are_put_right()
        self.files_are_put_right()
        await self.wait(3 * LONGEST)

    def aim_at(self, desired: str, consents: list[str]) -> None:
        """Ask for that alone, with these consents."""
        self.note(f"aims at {desired}")
        self.edit(lambda one: self._aimed(one, desired, consents))

    async def until(self, holds: Callable[[], bool]) -> bool:
        """Wait for it, as long as anything takes, and tell whether it came."""
        until = self.loop.time() + SETTLES_WITHIN
        while self.loop.time() < until and not holds():
            await self.wait(10.0 if holds == self._is_settled else 1.0)
        return holds()

    def _aim(self, desired: str, *, over: bool) -> None:
        uid = str(self.stored["metadata"]["uid"])
        self.history.records.append(Aimed(self.loop.time(), uid, desired, self.cluster.truth(), over))

    @staticmethod
    def _aimed(one: dict[str, Any], desired: str, consents: list[str]) -> None:
        one["spec"] |= {"suspend": False, "consents": consents, "features": {}, "approval": {"policy": "Never"}}
        one["spec"]["migration"] = {"desired": desired, "holdDualWriteFor": "1m"}
        one["metadata"]["annotations"] = {}

    def _aims(self) -> list[tuple[str, list[str]]]:
        """The states that the migration can reach from here."""
        truth = self.cluster.truth()
        if truth.state == FINALIZED and modes(truth) != {Mode.KRAFT}:
            return []  # a slip has stranded them: the operator cannot help
        ends = truth.state == MIGRATION and any(one is False for one in truth.controllers.values())
        is_final = truth.state == FINALIZED or ends
        spent = "zk-finalize" in ((self.stored.get("status") or {}).get("spentConsents") or ())
        if is_final:
            return [("Finalized", [] if spent else ["zk-finalize"])]
        has_flag = Mode.FLAGGED in truth.brokers.values()
        if truth.state is None and (truth.is_kraft or has_flag):
            return [("RolledBack", [])]  # which alone leads on from there
        if self.desired == "RolledBack" or self.random.random() < 0.4:
            return [("RolledBack", [])]
        there: list[tuple[str, list[str]]] = [("DualWrite", [])]
        return [*there, ("Finalized", ["zk-finalize"])] if self.random.random() < 0.6 else there

    def _is_settled(self) -> bool:
        ready, generation = self.ready, self.stored["metadata"]["generation"]
        return ready.get("status") == "True" and ready.get("observedGeneration") == generation
