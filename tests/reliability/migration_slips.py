"""Mistakes in a simulated migration: another file, or another address, than the one of its turn; and absence.

Made by a person, by Git or by Kubernetes at any time, whatever the operator waits for. None of them is the operator's
fault: what it makes of them is. Drawn by `migrations.py`; in the end each that still stands is taken back.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.files import Form, file_of
from kafkasim.node import Key
from tests.reliability.migration_facts import is_copied, modes
from tests.reliability.migration_person import PersonBeside
from tests.reliability.migration_records import FINALIZED, MIGRATION, Mode
from tests.reliability.migration_scene import CHROOT, NAME, SERVERS

OF_BROKERS = (Form.PLAIN_BROKER, Form.FLAGGED_BROKER, Form.KRAFT_BROKER)
OF_CONTROLLERS = (Form.MIGRATING_CONTROLLER, Form.CONTROLLER, Form.CONTROLLER)
LONGEST = 60.0
"""Seconds for which an address is wrong."""
CARELESS = 0.5
"""The share of histories with mistakes: the others lead further on the right way."""
ABSENT = 900.0
"""Seconds for which no process looks, at most."""


class Slips(PersonBeside):
    """`slipped`: by node, what its file said before."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.slipped: dict[Key, Form] = {}
        self.is_careless = Random(f"{seed} careless").random() < CARELESS

    def form(self, key: Key) -> Form:
        """What the file of a node makes it."""
        return next(form for form in Form if file_of(form, key[1]) == self.cluster.files[key])

    def _restarts(self, role: Role, id_: int, form: Form) -> None:
        self.slipped.pop((role, id_), None)
        super()._restarts(role, id_, form)

    def _starts_controllers(self, *, anew: bool = True) -> None:
        for one in self.cluster.controller_ids:
            self.slipped.pop((Role.CONTROLLER, one), None)
        super()._starts_controllers(anew=anew)

    def _slips(self, key: Key, form: Form) -> None:
        if self.form(key) is not form:
            self.note(f"slips: {key[0].value.lower()} {key[1]} is to be {form}")
            self.slipped.setdefault(key, self.form(key))
            self.cluster.change(*key, form)

    def a_node_has_another_file(self) -> None:
        """Restarts a node at once: by a person, or as its pod is drained and its template came early."""
        key = self.random.choice(sorted(self.cluster.files))
        self._slips(key, self.random.choice(OF_CONTROLLERS if key[0] is Role.CONTROLLER else OF_BROKERS))
        if self.cluster.runs(*key) and key not in self.stopped:
            self.cluster.restart(*key)

    def a_controller_loses_the_flag(self) -> None:
        """One that does not lead, more often than not."""
        leader = None if self.cluster.quorum is None else self.cluster.quorum.active
        ids = [one for one in self.cluster.controller_ids if one != leader or self.random.random() < 0.2]
        key = Role.CONTROLLER, self.random.choice(ids)
        if self.cluster.runs(*key):
            self._slips(key, Form.CONTROLLER)
            self.cluster.restart(*key)

    def a_template_comes_early(self) -> None:
        """All nodes of a role have another file, and whichever starts next starts with it."""
        role = self.random.choice((Role.BROKER, Role.CONTROLLER))
        form = self.random.choice(OF_CONTROLLERS if role is Role.CONTROLLER else OF_BROKERS)
        for key in sorted(self.cluster.files):
            if key[0] is role:
                self._slips(key, form)
        self.loop.call_later(2 * LONGEST * self.random.random(), self.files_are_put_right)

    def files_are_put_right(self) -> None:
        """What slipped and did not start with it yet, or was asked for since, stays as it is by now."""
        for key in sorted(self.slipped):
            self._is_put_right(key)

    def _is_put_right(self, key: Key) -> None:
        form = self.slipped.pop(key)
        truth = self.cluster.truth()
        if form is Form.PLAIN_BROKER and is_copied(truth):  # what it was before is of no use by now
            form = Form.FLAGGED_BROKER
        elif form is Form.KRAFT_BROKER and truth.state not in (MIGRATION, FINALIZED):
            form = Form.FLAGGED_BROKER if Mode.FLAGGED in modes(truth) else Form.PLAIN_BROKER
        elif key[0] is Role.CONTROLLER and truth.state == FINALIZED:
            form = Form.CONTROLLER
        self.note(f"puts right: {key[0].value.lower()} {key[1]} is to be {form}")
        self.cluster.change(*key, form)
        if self.cluster.runs(*key) and self.cluster.file_that_runs(*key) != self.cluster.files[key]:
            self.cluster.restart(*key)

    def another_chroot(self) -> None:
        """The ensemble is that of another cluster."""
        self._names(zookeeper={"connect": f"{SERVERS}{CHROOT}2"})

    def controllers_are_misnamed(self) -> None:
        """One of them alone, or by a port at which nothing listens."""
        self._names(bootstrapControllers=f"{NAME}.{self.random.choice(('first', 'typo'))}:9093")

    def _names(self, **wrong: Any) -> None:
        self.names_for(2 * LONGEST * self.random.random(), **wrong)

    def names_for(self, seconds: float, **wrong: Any) -> None:
        self.edit(lambda one: one["spec"]["cluster"].update(wrong))
        self.loop.call_later(seconds, self.addresses_are_put_right)

    def addresses_are_put_right(self) -> None:
        self.edit(lambda one: one["spec"]["cluster"].update(self.right))

    @property
    def right(self) -> dict[str, Any]:
        """The addresses of this cluster."""
        return {"bootstrapControllers": f"{NAME}.a:9093", "zookeeper": {"connect": f"{SERVERS}{CHROOT}"}}

    def the_migration_is_taken_out(self) -> None:
        """Remove the migration from the document for one reading, or a few."""
        self.edit(self._take_out)
        self.loop.call_later(40.0 * self.random.random(), self.the_migration_is_there_again)

    def _take_out(self, one: dict[str, Any]) -> None:
        found = one["spec"].pop("migration", None)
        if found is not None:
            self.taken_out = found

    def the_migration_is_there_again(self) -> None:
        self.edit(lambda one: one["spec"].setdefault("migration", self.taken_out))

    def nobody_looks(self) -> None:
        """The operator is scaled to zero for long."""
        self.asleep_until = self.loop.time() + ABSENT * self.random.random()
        for process in self.processes:
            process.end()

    def a_controller_is_overlooked(self) -> None:
        """All but one are stopped, and the document names another one alone."""
        ids = list(self.cluster.controller_ids)
        if not all(self.cluster.runs(Role.CONTROLLER, one) for one in ids):
            return
        self._names(bootstrapControllers=f"{NAME}.first:9093")
        left = self.random.choice(ids[1:])
        for one in ids:
            if one != left:
                self.note(f"stops controller {one}, and overlooks {left}")
                self.cluster.stop(Role.CONTROLLER, one)
                self.loop.call_later(3 * LONGEST, self._starts_again, one)

    def _starts_again(self, id_: int) -> None:
        if (Role.CONTROLLER, id_) not in self.stopped and not self.cluster.runs(Role.CONTROLLER, id_):
            self.cluster.start(Role.CONTROLLER, id_)
