"""A person beside a simulated migration, who does what the status asks for: late, and once faults have stopped also
what it advises.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from math import inf
from typing import Any

from kafkafeatures.api.names import APPROVE
from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.driver import PROGRESS
from kafkasim.migration.files import Form
from kafkasim.migration.person import ASKED
from tests.reliability.migration_records import MIGRATION
from tests.reliability.migration_scene import MigrationScene
from tests.reliability.records import Approved

PATIENCE = 30.0
"""Seconds until a node that was restarted as a remedy is restarted once more."""
LATE = 60.0
"""Seconds that a change in Git takes at most until it has arrived."""
STILL_NEEDS = re.compile(r"(broker|controller) (\d+) was restarted in this roll, and still needs it")


PUTS_BACK = re.compile(r"put the flag back on controller (\d+)")
WITHOUT_FLAG = re.compile(r"(brokers|controllers) run \S* ?[^:]*without \S+[^:]*: (\d+)")
USED = re.compile(r"the consent (\S+) (?:was already used|does not count)")
CONSENTS_TO = re.compile(r"add (zk-finalize|zk-controllers-stopped|zk-rollback-lossy) to consents")


class PersonBeside(MigrationScene):
    """`follows_advice`: also what is no step, but a remedy. `git_is_late`: chance that controllers stop later than they
    were asked to, whatever is asked for by then.
    """

    follows_advice = False
    late = LATE
    _asked = ""
    _remedied = -inf

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.git_is_late = self.random.choice((0.0, 0.7, 0.9))

    async def helps_on(self) -> None:
        while True:
            await asyncio.sleep(1.0 + (8.0 if self.random.random() < 0.7 else 40.0) * self.random.random())
            self.cluster.catch_up()
            self._helps()

    def _helps(self) -> None:
        message, status = str(self.ready.get("message", "")), self.stored.get("status") or {}
        is_new, self._asked = message != self._asked, message
        asked = ASKED.search(message)
        if self.ready.get("reason") == "ApprovalRequired":
            self._approves(status.get("plan") or {})
        elif asked is not None and is_new:
            self._restarts(Role.BROKER if asked[1] == "broker" else Role.CONTROLLER, int(asked[2]), Form(asked[3]))
        elif message.startswith("start the controllers") and is_new:
            self._starts_controllers()
        elif "needed: stop the controllers" in message and self.ready.get("reason") == "WaitingForGit":
            self._has_controllers_stopped()
        elif "if the controllers still have their disks, start them again" in str(status.get("blockers")):
            self._starts_controllers(anew=False)
        elif (flag := PUTS_BACK.search(f"{message} {status.get('blockers')}")) and self._is_patient():
            self._restarts(Role.CONTROLLER, int(flag[1]), Form.MIGRATING_CONTROLLER)
        elif self.follows_advice:
            self._remedies(f"{message} {status.get('blockers')}")

    def _approves(self, plan: Mapping[str, Any]) -> None:
        if plan.get("hash"):
            uid = self.stored["metadata"]["uid"]
            self.history.records.append(Approved(self.loop.time(), uid, plan["hash"], ()))
            given = {APPROVE: plan["hash"]}
            self.edit(lambda one: one["metadata"].setdefault("annotations", {}).update(given))

    def _restarts(self, role: Role, id_: int, form: Form) -> None:
        self.note(f"restarts {role.value.lower()} {id_} as {form}")
        self.cluster.change(role, id_, form)
        if self.cluster.runs(role, id_):
            self.cluster.restart(role, id_)
        else:
            self.cluster.start(role, id_)

    def _starts_controllers(self, *, anew: bool = True) -> None:
        """With disks that are wiped, as the way back asks for; now and then with those of the last attempt."""
        running = any(self.cluster.runs(Role.CONTROLLER, one) for one in self.cluster.controller_ids)
        if anew and not running and self.random.random() < 0.9:
            self.cluster.wipe()
        for one in self.cluster.controller_ids:
            self.stopped.discard((Role.CONTROLLER, one))
            self.cluster.change(Role.CONTROLLER, one, Form.MIGRATING_CONTROLLER)
            self.cluster.start(Role.CONTROLLER, one)
        self.note(f"starts the controllers, wiped: {self.cluster.quorum is None}")

    def _has_controllers_stopped(self) -> None:
        """Stop the controllers through Git, which may be late, so that anything may happen in between."""
        if self.random.random() >= self.git_is_late:
            self.stops_controllers()
            return
        late = self.late * self.random.random()
        self.loop.call_later(late, self.stops_controllers)
        if self.random.random() < 0.8:
            self.loop.call_later(late * self.random.random(), self.a_write_is_lost)

    def stops_controllers(self) -> None:
        for one in self.cluster.controller_ids:
            self.stopped.add((Role.CONTROLLER, one))
            if self.cluster.runs(Role.CONTROLLER, one):
                self.note(f"stops controller {one}")
                self.cluster.stop(Role.CONTROLLER, one)

    def _is_patient(self) -> bool:
        """True if the last remedy was tried long enough ago."""
        if self.loop.time() - self._remedied <= PATIENCE:
            return False
        self._remedied = self.loop.time()
        return True

    def _remedies(self, message: str) -> None:
        """What a status advises where something is wrong: once faults have stopped."""
        quorum = self.cluster.quorum
        if self._consents(message):
            return
        if "metadata log POST_MIGRATION" in message and self._is_patient():  # the flag came back too late
            self._restarts(Role.CONTROLLER, min(self.cluster.controller_ids), Form.CONTROLLER)
            return
        if (found := WITHOUT_FLAG.search(message)) and self._is_patient():
            is_broker = found[1] == "brokers"
            role, form = (
                (Role.BROKER, Form.FLAGGED_BROKER) if is_broker else (Role.CONTROLLER, Form.MIGRATING_CONTROLLER)
            )
            self._restarts(role, int(found[2]), form)
        elif "if you stopped controller" in message and self.stopped:
            self.stops_controllers()
        elif "start the controllers with their disks" in message:
            self._starts_controllers(anew=False)
        elif "wipe the controllers' disks" in message:
            if any(self.cluster.runs(Role.CONTROLLER, one) for one in self.cluster.controller_ids):
                self.stops_controllers()
            else:
                self.cluster.tree.delete(PROGRESS)
                self.cluster.wipe()
        elif "restart the active controller" in message and quorum is not None and quorum.active is not None:
            self.note("restarts the active controller")
            self.cluster.restart(Role.CONTROLLER, quorum.active)
        elif (found := STILL_NEEDS.search(message)) and self._is_patient():
            role = Role.BROKER if found[1] == "broker" else Role.CONTROLLER
            self._restarts(role, int(found[2]), self._form_of(role))

    def _consents(self, message: str) -> bool:
        """Whether a person does so, or takes a consent back that is of no use: to what is true, as far as they see."""
        given = list(self.stored["spec"].get("consents") or ())
        if (used := USED.search(message)) and used[1] in given:
            self.set(consents=[one for one in given if one != used[1]])
            return True
        asked = CONSENTS_TO.search(message)
        runs = any(self.cluster.runs(Role.CONTROLLER, one) for one in self.cluster.controller_ids)
        if asked is None or asked[1] in given or (asked[1] == "zk-controllers-stopped" and runs):
            return False
        self.set(consents=[*given, asked[1]])
        return True

    def _form_of(self, role: Role) -> Form:
        """The next configuration of a node with this role."""
        truth, is_back = self.cluster.truth(), self.desired == "RolledBack"
        if role is Role.CONTROLLER:
            return Form.CONTROLLER
        if truth.state == MIGRATION:
            return Form.FLAGGED_BROKER if is_back else Form.KRAFT_BROKER
        return Form.PLAIN_BROKER if is_back else Form.FLAGGED_BROKER
