"""The default of `min.insync.replicas` for topics that do not set it: the highest of the brokers that count.

Called by `kafka/cluster.py` and `kafka/partitions/`. A broker takes the value from its properties file, unless a
dynamic config (of the broker, or of all brokers) replaces it. Dynamic configs are in the metadata log. So with the log,
brokers are asked for the value in the file only, once after each start; without the log they are asked each time. It
never guesses: if a broker cannot be asked, the result is a `Failure`, since its value may be the highest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID

from kafkafeatures.core.facts.readings import Failure, FailureKind, NodeAnswer, ProbedNode, Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.node_settings import node_settings
from kraftlog import Image

Addresses = Mapping[int, Address]


class BrokerDefaults:
    """The default of one cluster. Values in properties files are kept for as long as the broker's incarnation id is the
    same.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._in_file: dict[int, tuple[UUID, int]] = {}  # by broker id: (incarnation id, value in its properties file)

    async def by_log(self, image: Image, addresses: Addresses) -> int | Failure:
        """The highest value of all unfenced brokers. `image`: one with partitions, which has dynamic configs too."""
        incarnations = {id_: broker.incarnation for id_, broker in image.brokers.items() if not broker.fenced}
        entries = {
            id_: entry for id_, entry in self._in_file.items() if id_ in incarnations and entry[0] == incarnations[id_]
        }
        for id_, answer in (await self._ask(incarnations.keys() - entries.keys(), addresses)).items():
            # `without_requests`: the value that counts if no request has set a dynamic config.
            value = answer if isinstance(answer, Failure) else _number(answer.without_requests, id_)
            if isinstance(value, Failure):
                return value
            entries[id_] = incarnations[id_], value
        self._in_file = entries
        dynamic = image.partitions.min_insync_replicas
        return _highest(
            dynamic.brokers.get(id_, in_file if dynamic.cluster is None else dynamic.cluster)
            for id_, (_, in_file) in entries.items()
        )

    async def by_asking(self, addresses: Addresses) -> int | Failure:
        """The highest value of these brokers, each of which is asked."""
        values = []
        for id_, answer in (await self._ask(addresses.keys(), addresses)).items():
            value = answer if isinstance(answer, Failure) else _number(answer.value, id_)
            if isinstance(value, Failure):
                return value
            values.append(value)
        return _highest(values)

    async def _ask(self, brokers: Iterable[int], addresses: Addresses) -> dict[int, Setting | Failure]:
        ids = sorted(brokers)
        answers = await asyncio.gather(*(self._ask_one(id_, addresses.get(id_)) for id_ in ids))
        return dict(zip(ids, answers, strict=True))

    async def _ask_one(self, id_: int, address: Address | None) -> Setting | Failure:
        if address is None:
            text = f"its {MIN_INSYNC_REPLICAS} is unknown: it has no address"
            return Failure(FailureKind.NOT_ASKED, f"broker {id_}", text)
        settings = await node_settings(self._pool, Role.BROKER, id_, address, (MIN_INSYNC_REPLICAS,))
        if isinstance(settings, Failure):
            return settings
        return settings.of.get(MIN_INSYNC_REPLICAS, Setting(SettingSource.UNKNOWN))


def _number(text: str | None, broker: int) -> int | Failure:
    try:
        return int(text or "")
    except ValueError:
        return Failure(FailureKind.REJECTED, f"broker {broker}", f"{MIN_INSYNC_REPLICAS} is not a number")


def _highest(values: Iterable[int]) -> int | Failure:
    highest = max(values, default=None)
    if highest is None:
        return Failure(FailureKind.UNREACHABLE, "brokers", "none of them is unfenced")
    return highest


def answering(nodes: Iterable[ProbedNode]) -> Mapping[int, Address]:
    """Return the addresses of the brokers that answered, by id."""
    brokers = (node for node in nodes if node.role is Role.BROKER and isinstance(node.answer, NodeAnswer))
    return {broker.id: Address(broker.host, broker.port) for broker in brokers if broker.id is not None}
