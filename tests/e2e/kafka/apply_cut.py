"""`apply` whose network is cut right before the first byte of its first change; and that is killed then, on request.

    python -m tests.e2e.kafka.apply_cut DOCUMENT [killed]

Prints the two ports of that connection.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kafkafeatures.cli.shell.main import main
from kafkafeatures.kafka.wire.connection import Connection
from tests.e2e.kafka.cut import Link

SECONDS = 0.3
change = Connection.change
cut: list[Link] = []


async def change_over_a_cut(
    self: Connection, message: Any, *, withheld: Callable[[], str | None], timeout: float
) -> Any:
    def last() -> str | None:
        why = withheld()
        if why is None and not cut:
            cut.append(Link.of(self))
            cut[0].cut()
            print(*cut[0], flush=True)
            if "killed" in sys.argv:
                asyncio.get_running_loop().call_later(SECONDS, os.kill, os.getpid(), signal.SIGKILL)
        return why

    return await change(self, message, withheld=last, timeout=timeout)


Connection.change = change_over_a_cut  # type: ignore[method-assign]
sys.exit(main(["apply", "-f", sys.argv[1]]))
