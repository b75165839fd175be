"""Plays a person who does what the status of a migration asks for: changes files of nodes, and restarts them.

Used by the demo and by tests, which pass the messages of the status. Messages that ask for nothing are ignored.
"""

from __future__ import annotations

import re

from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.cluster import MigratingCluster
from kafkasim.migration.files import Form

ASKED = re.compile(r"restart (broker|controller) (\d+) as ([^:;]+)[:;]")
"""Message that asks a person to restart a node: role, id, and what it must become."""


class Person:
    """Does what a message asks for; the same message again is ignored."""

    def __init__(self, cluster: MigratingCluster) -> None:
        self._cluster, self._last_message = cluster, ""

    def does(self, message: str) -> None:
        """Do what the message asks for, if it is a new one."""
        is_new, self._last_message = message != self._last_message, message
        match = ASKED.search(message)
        if not is_new:
            return
        if match is not None:
            role = Role.BROKER if match[1] == "broker" else Role.CONTROLLER
            self._cluster.change(role, int(match[2]), Form(match[3]))
            self._cluster.restart(role, int(match[2]))
        elif message.startswith("start the controllers"):
            self.starts_controllers()
        elif "needed: stop the controllers" in message:
            self.stops_controllers()

    def starts_controllers(self) -> None:
        """Start all controllers, each with the file of a migration."""
        for id_ in self._cluster.controller_ids:
            self._cluster.change(Role.CONTROLLER, id_, Form.MIGRATING_CONTROLLER)
            self._cluster.start(Role.CONTROLLER, id_)

    def stops_controllers(self) -> None:
        """Stop all controllers at once."""
        for id_ in self._cluster.controller_ids:
            self._cluster.stop(Role.CONTROLLER, id_)
