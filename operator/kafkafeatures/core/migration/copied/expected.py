"""Entries that ZooKeeper should have: those of the metadata log, by the paths of their znodes.

Pure. Made by `zookeeper/compare.py`, read by `comparison.py`. Needs numpy, as the partitions of an image of the log do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kafkafeatures.core.migration.copied import configs, rights
from kafkafeatures.core.migration.copied.entries import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Credential,
    Entries,
    EntryKey,
    Flag,
    Kind,
    NextId,
    Placed,
    Value,
    is_password,
)
from kafkafeatures.core.migration.copied.tokens_and_producer_ids import (
    PRODUCER_ID,
    PRODUCER_IDS,
    comparable,
    token_key,
    token_path,
)
from kafkafeatures.core.migration.copied.topics import shown_id, topic_name
from kraftlog.image import Image
from kraftlog.partitions import RECOVERING, Columns, Partitions, Replica

NOWHERE = ""
"""Path of entries that ZooKeeper has no path for, such as a quota of an unusual entity."""

_BITS = tuple(map(int, (Replica.IN_SYNC, Replica.ADDING, Replica.REMOVING)))
_KINDS = {TOPIC_RESOURCE: Kind.TOPIC_CONFIG, BROKER_RESOURCE: Kind.BROKER_CONFIG}


class Expected:
    """Entries by an image of the metadata log. To make one takes a moment for a large image: in a thread, if there is
    an event loop.
    """

    def __init__(self, image: Image) -> None:
        self._partitions = image.partitions
        self._tables = tuple(_sorted(self._partitions))
        self._numbers = {topic.name: number for number, topic in self._partitions.topics.items()}
        self._others: dict[str, dict[EntryKey, Value]] = {}
        for path, key, value in _entries(image):
            self._others.setdefault(path, {})[key] = value

    @property
    def names(self) -> Iterable[str]:
        """Names of all topics."""
        return self._numbers

    @property
    def paths(self) -> Iterable[str]:
        """Paths of all expected znodes but those of topics."""
        return self._others

    def topic(self, name: str) -> str | None:
        """The id of a topic; None if there is no such topic."""
        number = self._numbers.get(name)
        return None if number is None else shown_id(self._partitions.topics[number].id_bytes)

    def partitions(self, name: str) -> Mapping[int, Placed]:
        """Placement of each partition of a topic, by number, made when it is looked up; empty if there is no such
        topic.
        """
        number = self._numbers.get(name)
        return {} if number is None else _Partitions([_of_topic(table, number) for table in self._tables])

    def entries(self, path: str) -> Entries:
        """Expected entries of a znode that is not one of a topic."""
        return self._others.get(path, {})

    def unit(self, path: str) -> object:
        """All expected values of the topic or znode with this path, to be compared with those of a later image."""
        name = topic_name(path)
        return self.entries(path) if name is None else (self.topic(name), dict(self.partitions(name)))


def _sorted(partitions: Partitions) -> Iterator[Columns]:
    """Tables of partitions, one for each number of replicas, each sorted by topic, as `_of_topic` needs it."""
    widths: dict[int, list[Columns]] = {}
    for chunk in partitions.chunks:
        widths.setdefault(chunk.replicas.shape[1], []).append(chunk)
    for chunks in widths.values():
        together = Columns._make(np.concatenate(column) for column in zip(*chunks, strict=True))
        order = np.argsort(together.topic, kind="stable")
        yield together.each(lambda column, order=order: column[order])  # type: ignore[misc]  # bound at once


def _of_topic(table: Columns, topic: int) -> Columns:
    first, last = np.searchsorted(table.topic, (topic, topic + 1)).tolist()
    return table.each(lambda column: column[first:last])


class _Partitions(Mapping[int, Placed]):
    """Partitions of one topic, by their numbers."""

    def __init__(self, tables: list[Columns]) -> None:
        self._rows = {number: (table, row) for table in tables for row, number in enumerate(table.partition.tolist())}

    def __getitem__(self, number: int) -> Placed:
        table, row = self._rows[number]
        replicas, flags = table.replicas[row].tolist(), table.flags[row].tolist()
        in_sync, adding, removing = (
            tuple(sorted(replica for replica, flag in zip(replicas, flags, strict=True) if flag & bit)) for bit in _BITS
        )
        leader, epoch = int(table.leader[row]), int(table.leader_epoch[row])
        recovers = any(flag & RECOVERING for flag in flags)
        return Placed(tuple(replicas), adding, removing, leader, in_sync, epoch, recovers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _entries(image: Image) -> Iterator[tuple[str, EntryKey, Value]]:
    """Path, key and value of each entry but those of topics and partitions."""
    clients, configured = image.clients, image.configs
    for (type_, name, config), value in configured.values.items():
        if type_ in _KINDS:
            key = configs.config_key(_KINDS[type_], name, config)
            yield configs.config_path(type_, name), key, Flag.SET if is_password(config) else value
    for (user, mechanism), credential in configured.credentials.items():
        path = configs.quota_path(((configs.USER, user),)) or NOWHERE
        yield path, configs.credential_key(user, mechanism), Credential(credential.iterations, credential.digest)
    for (entity, quota), number in clients.quotas.items():
        yield configs.quota_path(entity) or NOWHERE, configs.quota_key(entity, quota), number
    for right in clients.rights.values():
        path = rights.acl_path(right.pattern_type, right.resource_type, right.resource_name) or NOWHERE
        key = rights.right_key(
            right.permission_type, right.principal, right.operation, right.host,
            resource=right.resource_type, name=right.resource_name, pattern=right.pattern_type,
        )  # fmt: skip
        yield path, key, Flag.GRANTED
    for id_, token in clients.tokens.items():
        yield (
            token_path(id_),
            token_key(id_),
            comparable(token),
        )
    if clients.next_producer_id is not None:
        yield (
            PRODUCER_IDS,
            PRODUCER_ID,
            NextId((clients.next_producer_id,)),
        )
