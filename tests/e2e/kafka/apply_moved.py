"""`apply` while another client raises transaction.version to 2, just as the intent of a downgrade is written.

python apply_moved.py DOCUMENT PORT
"""

from __future__ import annotations

import sys

from kafkafeatures.api.status import Status
from kafkafeatures.cli.shell.main import main
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.messages import UPGRADE, UpdateFeaturesRequest
from kafkafeatures.reconcile.file_store import FileStore

write_status = FileStore.write_status
RAISE = UpdateFeaturesRequest(updates=(("transaction.version", 2, UPGRADE),), validate_only=False)
moved: list[bool] = []


async def write_while_it_moves(self: FileStore, status: Status) -> None:
    await write_status(self, status)
    if status.intents and not moved:
        moved.append(True)
        node = Address("127.0.0.1", int(sys.argv[2]))
        async with await connect(node, Security(), timeout=10, client_id="t", environment=SYSTEM) as link:
            assert (await link.request(RAISE)).error_code == 0


FileStore.write_status = write_while_it_moves  # type: ignore[method-assign]
sys.exit(main(["apply", "--yes", "-f", sys.argv[1]]))
