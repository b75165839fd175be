"""A person beside a simulated migration, who does what its status asks for: with the lines of Git, node by node.

Owned by a story or a test, which gives it each new message. What it does not understand it leaves alone.
"""

from __future__ import annotations

import re

from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.cluster import MigratingCluster
from kafkasim.migration.files import Form

ASKED = re.compile(r"restart (broker|controller) (\d+) as ([^:;]+)[:;]")
"""How a person is asked to restart one node, and as what."""


class Person:
    """Does what a message asks for, once for each message."""

    def __init__(self, cluster: MigratingCluster) -> None:
        self._cluster, self._asked = cluster, ""

    def does(self, message: str) -> None:
        """What the message asks for, where it is not the one of before."""
        is_new, self._asked = message != self._asked, message
        asked = ASKED.search(message)
        if not is_new:
            return
        if asked is not None:
            role = Role.BROKER if asked[1] == "broker" else Role.CONTROLLER
            self._cluster.change(role, int(asked[2]), Form(asked[3]))
            self._cluster.restart(role, int(asked[2]))
        elif message.startswith("start the controllers"):
            self.starts_controllers()
        elif "needed: stop the controllers" in message:
            self.stops_controllers()

    def starts_controllers(self, form: Form = Form.MIGRATING_CONTROLLER) -> None:
        """Each with this file."""
        for one in self._cluster.controller_ids:
            self._cluster.change(Role.CONTROLLER, one, form)
            self._cluster.start(Role.CONTROLLER, one)

    def stops_controllers(self) -> None:
        """Each of them, without a pause between."""
        for one in self._cluster.controller_ids:
            self._cluster.stop(Role.CONTROLLER, one)
