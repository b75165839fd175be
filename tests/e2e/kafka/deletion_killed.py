"""Sends the transaction of an intent in a process that kills itself with SIGKILL right before or after its bytes left.

python deletion_killed.py CONNECT INTENT before|after
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Transaction

from kafkafeatures.api.status import Intent
from kafkafeatures.core.engine.steps import NotSent
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.environment import SYSTEM
from kafkafeatures.zookeeper.client import ZooKeeper
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect

CONNECT, INTENT, DIES = sys.argv[1:]
ORIGINAL = ConnectionHandler._submit


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def submit(self: ConnectionHandler, request: Any, *words: Any) -> None:
    if not isinstance(request, Transaction):
        ORIGINAL(self, request, *words)
        return
    if DIES == "after":
        ORIGINAL(self, request, *words)
    die()


async def main() -> None:
    port = ZooKeeper(Ensemble(*parse_connect(CONNECT, "CONNECT")), SYSTEM)
    async with port.prepared(DeleteZnodes.read(Intent.read(json.loads(INTENT))).step) as transaction:
        assert not isinstance(transaction, NotSent)
        await transaction.send(lambda: None)


ConnectionHandler._submit = submit
asyncio.run(main())
