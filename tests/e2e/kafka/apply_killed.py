"""`apply` in a process that kills itself with SIGKILL at the n-th point: before or after a call of one of the ports.

    python apply_killed.py DOCUMENT N

Prints the points it passed, and ends like `apply` when N is beyond the last. It waits half a second for what one
before it may have sent, and not thirty.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from kafkafeatures.cli.document import apply
from kafkafeatures.cli.shell.main import main
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.requests.features import PreparedChange
from kafkafeatures.reconcile.file_store import FileStore

LEFT = [int(sys.argv[2])]
POINTS = ((Cluster, "read"), (Cluster, "validate"), (PreparedChange, "send"), (FileStore, "write_status"))


def point(name: str) -> None:
    print(name, flush=True)
    if LEFT[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    LEFT[0] -= 1


def deadly(owner: type, name: str) -> None:
    original: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def call(self: Any, *words: Any, **named: Any) -> Any:
        point(f"before {name}")
        found = await original(self, *words, **named)
        point(f"after {name}")
        return found

    setattr(owner, name, call)


apply.ON_ITS_WAY = timedelta(seconds=0.5)  # type: ignore[attr-defined]
for owner, name in POINTS:
    deadly(owner, name)
sys.exit(main(["apply", "-f", sys.argv[1]]))
