"""Many tenants: clusters with a CA of their own each, client certificates and SCRAM. What a connection to each costs.

The listeners run in a process of their own, the one that connects in another, so that its memory is its own. They speak
TLS, ApiVersions and SASL as Kafka does, and no more.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trustme
from scramp import ScramMechanism

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, Sasl, Security
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.pem import Tls
from tests.kafkafeatures.kafka.wire.servers import Answers, Server, api_versions, handshake, judged, proof_of

MECHANISM, ITERATIONS, AT_ONCE = "SCRAM-SHA-512", 16_384, 32


def secured(count: int) -> None:
    """Two rounds: the first makes all contexts, the second is what clusters cost that are open already."""
    role = [sys.executable, "-m", "tests.bench.secured"]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        subprocess.Popen([*role, "serve", str(count + 1), f"{folder}/tenants.json"], stdout=subprocess.PIPE) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            subprocess.run([*role, "ask", f"{folder}/tenants.json"], check=True)
        finally:
            server.terminate()


# --- the tenants ---


async def _serve(count: int, file: str) -> None:
    answers: Answers = {18: api_versions((17, 0, 1), (36, 0, 2)), 17: handshake(MECHANISM), 36: _Scram()}
    tenants, listeners = [], []
    for number in range(count):
        authority = trustme.CA(organization_name=f"tenant {number}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        listeners.append(await asyncio.start_server(Server(answers).serve, "127.0.0.1", 0, ssl=context))
        alice = authority.issue_cert("alice.example", common_name="alice")
        parts = {"ca": authority.cert_pem, "certificate": alice.cert_chain_pems[0], "key": alice.private_key_pem}
        port = listeners[-1].sockets[0].getsockname()[1]
        tenants.append({"port": port, "tls": {name: part.bytes().decode() for name, part in parts.items()}})
    await asyncio.to_thread(Path(file).write_text, json.dumps(tenants))
    print("ready", flush=True)
    await asyncio.Event().wait()


class _Scram:
    """The server's side, of exchanges that continue at the same time."""

    def __init__(self) -> None:
        self._mechanism = ScramMechanism(MECHANISM)
        self._auth = self._mechanism.make_auth_info("a password", iteration_count=ITERATIONS)
        self._begun: dict[str, Any] = {}

    def __call__(self, request: bytes) -> bytes:
        text = proof_of(request).decode()
        if text.startswith("n,"):
            exchange = self._mechanism.make_server(lambda user: self._auth)
            exchange.set_client_first(text)
            first: str = exchange.get_server_first()
            self._begun[first.partition(",")[0]] = exchange
            return judged(request, first.encode())
        exchange = self._begun.pop(text.split(",")[1])
        exchange.set_client_final(text)
        return judged(request, exchange.get_server_final().encode())


# --- who connects ---


async def _ask(tenants: list[dict[str, Any]]) -> None:
    sasl = Sasl(MECHANISM, "alice", "a password")
    clusters = [(Address("127.0.0.1", one["port"]), Security(Tls(**one["tls"]), sasl)) for one in tenants]
    await _round([clusters.pop()])  # what is loaded once: libraries, threads
    before = _resident()
    print(
        f"{len(clusters)} clusters with own CAs, mTLS and {MECHANISM} ({ITERATIONS:,} iterations)"
        ", one connection to each:"
    )
    for what in ("the first", "another"):
        seconds, held = await _round(clusters)
        each = (_resident() - before) / len(clusters)
        print(f"  {what}: {seconds:.1f} s, the event loop held for {1000 * held:.0f} ms at most, {each:.0f} KiB each")


async def _round(clusters: list[tuple[Address, Security]]) -> tuple[float, float]:
    """Seconds for all, and the longest that the event loop was held."""
    places, longest, began = asyncio.Semaphore(AT_ONCE), [0.0], time.perf_counter()

    async def one(address: Address, security: Security) -> None:
        async with places, await connect(address, security, timeout=60.0, client_id="bench", environment=SYSTEM):
            pass

    watch = asyncio.create_task(_watch(longest))
    await asyncio.gather(*(one(*cluster) for cluster in clusters))
    seconds = time.perf_counter() - began
    watch.cancel()
    return seconds, longest[0]


async def _watch(longest: list[float], every: float = 0.001) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(every)
        longest[0] = max(longest[0], time.perf_counter() - before - every)


def _resident() -> int:
    """KiB of this process."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(_serve(int(sys.argv[2]), sys.argv[3]))
    else:
        asyncio.run(_ask(json.loads(Path(sys.argv[2]).read_text())))
