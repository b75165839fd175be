"""Paths of the znodes that a migration copies, but those of topics, and the reader of each.

Pure. Called by `zookeeper/copied.py` and by the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkafeatures.core.migration.copied.configs import (
    CLIENTS_OF_USER,
    OF_BROKERS,
    OF_CLIENTS,
    OF_IPS,
    OF_TOPICS,
    OF_USERS,
    read_client,
    read_configs,
)
from kafkafeatures.core.migration.copied.entries import Entries
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.copied.rights import RESOURCES, ROOTS, read_acl
from kafkafeatures.core.migration.copied.tokens_and_producer_ids import (
    PRODUCER_IDS,
    TOKENS,
    read_producer_ids,
    read_token,
)

LISTS = (OF_TOPICS, OF_BROKERS, OF_USERS, OF_CLIENTS, OF_IPS, TOKENS)
"""Paths whose children are all read."""

_READERS: Mapping[str, Callable[[str, bytes], Entries | ZnodeFinding]] = {
    **dict.fromkeys((OF_TOPICS, OF_BROKERS), read_configs),
    **dict.fromkeys((OF_USERS, OF_CLIENTS, OF_IPS), read_client),
    **dict.fromkeys((f"{root}/{type_}" for root in ROOTS for type_ in RESOURCES), read_acl),
    TOKENS: read_token,
}


def read_entries(path: str, data: bytes | None) -> Entries | ZnodeFinding:
    """Entries of a znode; none if it is absent; a finding if Kafka could not copy them. Never raises."""
    if data is None:
        return {}
    if path == PRODUCER_IDS:
        return read_producer_ids(path, data)
    return next(reader for root, reader in _READERS.items() if path.startswith(f"{root}/"))(path, data)


def clients_of(user_path: str) -> str:
    """Path below which the quotas of a user together with a client id are."""
    return f"{user_path}/{CLIENTS_OF_USER}"


def is_possible_path(path: str) -> bool:
    """Tell whether ZooKeeper could have a znode with this path: the metadata log may have names that make no path."""
    return path.startswith("/") and "\0" not in path and not {"", ".", ".."} & set(path.split("/")[1:])
