"""The `min.insync.replicas` of topics that set none: the highest that any broker applies, each asked by itself.

Called by `cluster.py` and `asked_partitions.py`. A broker has it from its file, unless a request set it for the broker
or for all of them. Requests are in the metadata log, so with the log only what the file says is asked for, once for
each life of a broker; without the log everything is asked each time. It never guesses: a broker that cannot be asked is
a `Failure`, since it may be the one with the highest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.readings import Role as Listener
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import Right, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.topic_messages import (
    BROKER_RESOURCE,
    DEFAULT,
    IN_FILE,
    ConfigAnswer,
    DescribeConfigsRequest,
)
from kraftlog import Image

MIN_INSYNC_REPLICAS = "min.insync.replicas"

Addresses = Mapping[int, Address]


class BrokerDefaults:
    """Of one cluster. Remembers what the file of a broker said, by its incarnation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._in_file: dict[int, tuple[UUID, int]] = {}

    async def by_log(self, image: Image, addresses: Addresses) -> int | Failure:
        """The highest of the unfenced brokers of an image with partitions."""
        lives = {id_: broker.incarnation for id_, broker in image.brokers.items() if not broker.fenced}
        known = {id_: one for id_, one in self._in_file.items() if id_ in lives and one[0] == lives[id_]}
        for id_, answer in (await self._ask(lives.keys() - known.keys(), addresses)).items():
            value = answer if isinstance(answer, Failure) else _number(answer, in_file=True, broker=id_)
            if isinstance(value, Failure):
                return value
            known[id_] = lives[id_], value
        self._in_file = known
        set_ = image.partitions.min_insync_replicas
        return _highest(
            set_.brokers.get(id_, in_file if set_.cluster is None else set_.cluster)
            for id_, (_, in_file) in known.items()
        )

    async def by_asking(self, addresses: Addresses) -> int | Failure:
        """The highest of these brokers."""
        values = []
        for id_, answer in (await self._ask(addresses.keys(), addresses)).items():
            value = answer if isinstance(answer, Failure) else _number(answer, in_file=False, broker=id_)
            if isinstance(value, Failure):
                return value
            values.append(value)
        return _highest(values)

    async def _ask(self, brokers: Iterable[int], addresses: Addresses) -> dict[int, ConfigAnswer | Failure]:
        ids = sorted(brokers)
        answers = await asyncio.gather(*(self._ask_one(id_, addresses.get(id_)) for id_ in ids))
        return dict(zip(ids, answers, strict=True))

    async def _ask_one(self, id_: int, address: Address | None) -> ConfigAnswer | Failure:
        where = f"broker {id_}"
        if address is None:
            return Failure(FailureKind.NOT_ASKED, where, f"its {MIN_INSYNC_REPLICAS} is unknown: it has no address")
        request = DescribeConfigsRequest(BROKER_RESOURCE, (str(id_),), MIN_INSYNC_REPLICAS)
        try:
            answer = (await self._pool.ask(address, Listener.BROKER, request)).configs.get(str(id_))
        except KafkaError as error:
            return to_failure(error, str(address))
        if answer is None:
            return Failure(FailureKind.REJECTED, str(address), f"does not tell the configs of {where}")
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            words = missing(f"reading {MIN_INSYNC_REPLICAS} of {where}", Right.DESCRIBE_CONFIGS)
            return Failure(FailureKind.AUTHORIZATION, str(address), *words)
        if answer.error_code:
            text = printable(answer.error_message or "") or code_name(answer.error_code)
            return Failure(FailureKind.REJECTED, str(address), f"DescribeConfigs of {where}: {text}")
        return answer


def _number(answer: ConfigAnswer, *, in_file: bool, broker: int) -> int | Failure:
    """`in_file`: what holds where nothing was set by a request."""
    text = answer.layers.get(IN_FILE, answer.layers.get(DEFAULT)) if in_file else answer.value
    try:
        return int(text or "")
    except ValueError:
        return Failure(FailureKind.REJECTED, f"broker {broker}", f"{MIN_INSYNC_REPLICAS} is not a number")


def _highest(values: Iterable[int]) -> int | Failure:
    found = max(values, default=None)
    if found is None:
        return Failure(FailureKind.UNREACHABLE, "brokers", "none of them is unfenced")
    return found
