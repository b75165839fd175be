"""Names that are resolved to be checked: what one cluster may hold, and what needs no lookup."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkafeatures.api.spec import ClusterSpec
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import AddressRefused, Unreachable
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.lookups import AT_ONCE, Lookups
from kafkafeatures.reconcile.credentials import settings_of
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, serving
from tests.kafkafeatures.threads import until

NOBODY = Lookups(0)
"""No slots at all: a lookup never gets its turn."""


class Dns:
    """A name server that does not answer until `over`. Every lookup has a real thread."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        self.over.wait(20)
        return [(0, 0, 0, "", ("198.18.0.9", 9092))]


@pytest.fixture
async def dns(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Dns]:
    made = Dns()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 * AT_ONCE))
    monkeypatch.setattr(socket, "getaddrinfo", made)
    yield made
    made.over.set()


async def test_a_cancelled_lookup_still_occupies_its_slot_and_another_cluster_has_its_own_slots(dns: Dns) -> None:
    mine, anothers = Lookups(2), Lookups(2)
    first = [asyncio.create_task(mine.resolve(f"first-{number}", 1)) for number in range(3)]
    await until(lambda: len(dns.asked) == 2)
    for task in first:
        task.cancel()
    await asyncio.wait(first)
    second = asyncio.create_task(mine.resolve("second", 1))
    other = asyncio.create_task(anothers.resolve("other", 1))
    await until(lambda: "other" in dns.asked)
    assert dns.asked == ["first-0", "first-1", "other"]
    dns.over.set()
    assert await second == await other == ["198.18.0.9"]
    assert "first-2" not in dns.asked  # it was no longer waited for


async def test_connections_of_one_cluster_share_a_limited_number_of_lookups(dns: Dns) -> None:
    security = Security(policy=AddressPolicy())
    addresses = [Address(f"{number:x}.b", 1) for number in range(3 * AT_ONCE)]
    connecting = [
        asyncio.create_task(connect(address, security, timeout=60.0, client_id="t", environment=SYSTEM))
        for address in addresses
    ]
    await until(lambda: len(dns.asked) == AT_ONCE)
    for task in connecting:
        task.cancel()
    await asyncio.wait(connecting)
    again = asyncio.create_task(connect(addresses[-1], security, timeout=60.0, client_id="t", environment=SYSTEM))
    await asyncio.sleep(0)
    await asyncio.to_thread(int)  # what had come to a thread before it has begun
    assert len(dns.asked) == AT_ONCE
    again.cancel()
    await asyncio.wait([again])


async def test_waiting_for_a_lookup_counts_against_the_connection_timeout() -> None:
    security = Security(policy=AddressPolicy(), lookups=NOBODY)
    with pytest.raises(Unreachable, match=r"no connection within 0\.01 s"):
        await connect(Address("kafka.example", 9092), security, timeout=0.01, client_id="t", environment=SYSTEM)


async def test_an_ip_address_needs_no_lookup_and_is_still_checked() -> None:
    security = Security(policy=AddressPolicy(), lookups=NOBODY)
    async with serving(Server({18: api_versions()})) as server:
        await (await connect(server.address, security, timeout=5.0, client_id="t", environment=SYSTEM)).close()
    for forbidden in ("169.254.169.254", "::ffff:169.254.169.254"):
        with pytest.raises(AddressRefused):
            await connect(Address(forbidden, 9092), security, timeout=5.0, client_id="t", environment=SYSTEM)


def test_brokers_and_controllers_of_one_cluster_share_lookups_and_two_clusters_do_not() -> None:
    cluster = ClusterSpec(bootstrap_servers="a:9092", bootstrap_controllers="b:9093")
    one, other = (settings_of(cluster, lambda *_: None, policy=AddressPolicy()) for _ in range(2))
    assert one == other
    assert one.brokers.lookups is one.controllers.lookups
    assert one.brokers.lookups is not other.brokers.lookups
