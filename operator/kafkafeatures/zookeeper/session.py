"""A session with an ensemble: asynchronous requests for znodes, and one transaction.

`core/facts/znodes.py` decodes the bytes of znodes. A session lasts for one reading or transaction: nothing is watched,
and no znode is created. kazoo has three threads for each session; answers are passed back to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Self

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.interfaces import IAsyncResult
from kazoo.retry import KazooRetry
from kazoo.security import ACL

from kafkafeatures.core.engine.steps import NotSent, OutcomeUnknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import Znode
from kafkafeatures.core.ports import Withheld
from kafkafeatures.kafka.base.errors import AddressRefused, KafkaError, TimedOut, to_failure
from kafkafeatures.zookeeper.connection import Frames, Sockets
from kafkafeatures.zookeeper.ensemble import Ensemble

SESSION = 10.0
"""Seconds after which ZooKeeper ends the session of a process that was killed; no request of it is accepted later."""

LEAVES_WITHIN = 1.0
"""Seconds in which the first byte of a transaction must leave, once it was passed to kazoo."""

_SILENT = logging.getLogger("kafkafeatures.zookeeper.kazoo")
_SILENT.disabled = True  # kazoo logs its requests, and with them the password of a digest


class Session:
    """A session, to be opened with `async with`, which raises KafkaError where no server of the ensemble can be
    reached. A missing znode is None, and a znode that cannot be read a Failure.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._sockets = Sockets(ensemble)
        digest = ensemble.digest
        self._client = KazooClient(
            hosts=",".join(map(str, ensemble.servers)) + ensemble.chroot,
            timeout=SESSION,
            handler=self._sockets,
            auth_data=[("digest", f"{digest.username}:{digest.password}")] if digest else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=self._sockets.sleep_func),
            logger=_SILENT,
        )
        self._frames = Frames(self._client, self._client._conn_retry.copy(), logger=_SILENT)
        self._client._connection = self._frames  # kazoo has no public way to replace its handler

    async def __aenter__(self) -> Self:
        connected = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._client.add_listener(lambda _: loop.call_soon_threadsafe(connected.set))
        self._client.start_async()
        try:
            async with asyncio.timeout(self._ensemble.timeout):
                while not self._client.connected:
                    await connected.wait()
                    connected.clear()
        except TimeoutError:
            self._sockets.end()
            await self._closed()
            raise await self._no_session() from None
        except BaseException:
            self._sockets.end()
            await self._closed()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._closed()

    async def _no_session(self) -> KafkaError:
        """Error because of which there is no session. If the Kubernetes API server answers at the address, nothing of
        its answer is reported: a tenant must not learn of it.
        """
        policy, answered = self._ensemble.policy, self._sockets.answered
        if policy is not None and answered is not None and await policy.is_api_server(*answered):
            return AddressRefused()
        return self._sockets.failure or TimedOut(
            f"connected, but no session within {self._ensemble.timeout:g} s",
            remedy="the ensemble may have lost its majority, or this is not ZooKeeper, or it speaks TLS",
        )

    @property
    def ensemble(self) -> str:
        """Servers and chroot, for messages."""
        return str(self._ensemble)

    async def synced(self, path: str) -> Failure | None:
        """Have the server catch up with its leader, so that later reads of this path are not older than this call."""
        answer = await self._answer(path, self._client.sync_async)
        return answer if isinstance(answer, Failure) else None

    async def get(self, path: str) -> Znode | Failure | None:
        """One znode; None where it is absent."""
        answer = await self._answer(path, self._client.get_async)
        if answer is None or isinstance(answer, Failure):
            return answer
        data, stat = answer
        return Znode(
            path, data or b"", stat.version, stat.czxid, stat.ephemeralOwner != 0, stat.numChildren, stat.mtime
        )

    async def children(self, path: str) -> tuple[str, ...] | Failure | None:
        """Names of the children of a znode, sorted; None where it is absent."""
        answer = await self._answer(path, self._client.get_children_async)
        return tuple(sorted(answer)) if isinstance(answer, list) else answer

    async def acl(self, path: str) -> tuple[ACL, ...] | Failure | None:
        """ACL of one znode; None where it is absent."""
        answer = await self._answer(path, self._client.get_acls_async)
        return answer if answer is None or isinstance(answer, Failure) else tuple(answer[0])

    async def transact(
        self, operations: Callable[[TransactionRequest], None], withheld: Withheld
    ) -> tuple[Any, ...] | NotSent | OutcomeUnknown:
        """Send one transaction, at most once. Returns the result of each operation, which is an exception if it was
        rejected.

        `withheld` is called right before the transaction is passed to the thread of kazoo that writes it; its first
        byte must then leave within `LEAVES_WITHIN`. If no answer comes, the session is over: its connection is ended,
        and kazoo, which would continue the session on another one, can make none.

        NotSent: no byte of the transaction has left. OutcomeUnknown: one may have left, and no answer came.
        """
        transaction = self._client.transaction()
        operations(transaction)
        if reason := withheld():
            return NotSent(reason)
        if not self._client.connected:
            return NotSent(f"ZooKeeper {self._ensemble}: the session has ended meanwhile")
        self._frames.permit_transaction()
        deadline = asyncio.get_running_loop().call_later(LEAVES_WITHIN, self._frames.forbid_transactions)
        answer = None
        try:
            async with asyncio.timeout(self._ensemble.timeout):
                answer = tuple((await _settled(transaction.commit_async())).get(block=False))
            return answer
        except Exception as error:  # of any kind: there is no answer
            if not self._frames.forbid_transactions():
                return NotSent(f"ZooKeeper {self._ensemble}: the session has ended meanwhile")
            reason = _name_of(error) if isinstance(error, KazooException) else f"no answer ({type(error).__name__})"
            return OutcomeUnknown(f"ZooKeeper {self._ensemble}: {reason}")
        finally:
            deadline.cancel()
            self._frames.forbid_transactions()
            if answer is None:
                self._sockets.end()

    def request_znode(self, path: str) -> IAsyncResult:
        """Request one znode without waiting; `outcome` returns the answer."""
        return self._client.get_async(path)

    def request_children(self, path: str) -> IAsyncResult:
        """Request the children of a znode without waiting; `outcome` returns the answer."""
        return self._client.get_children_async(path)

    @property
    def timeout(self) -> float:
        """Seconds for each step."""
        return self._ensemble.timeout

    def outcome(self, path: str, done: IAsyncResult) -> Any:
        """Answer to a request that is done; None if there is no such znode, a Failure if it was not read."""
        try:
            return done.get(block=False)
        except NoNodeError:
            return None
        except NoAuthError:
            return Failure(
                FailureKind.AUTHORIZATION,
                f"znode {path}",
                "not authorized to read it",
                "grant READ on it to the user of the digest, or name one that may read it",
            )
        except KazooException as error:
            if self._sockets.failure is not None:
                return self.failed(self._sockets.failure)
            return Failure(FailureKind.DISCONNECTED, f"znode {path}", f"the session ended ({_name_of(error)})", "")

    def late(self, path: str = "") -> Failure:
        """Failure because no answer came for a znode; without a path, for any."""
        return Failure(
            FailureKind.TIMED_OUT,
            f"znode {path}" if path else f"ZooKeeper {self._ensemble}",
            f"no answer within {self._ensemble.timeout:g} s",
            "check that a majority of the ensemble runs",
        )

    async def _answer(self, path: str, request: Callable[[str], IAsyncResult]) -> Any:
        """Send a request and wait for its answer, in the form of `outcome`."""
        try:
            async with asyncio.timeout(self._ensemble.timeout):
                return self.outcome(path, await _settled(request(path)))
        except TimeoutError:
            return self.late(path)

    def failed(self, error: KafkaError) -> Failure:
        """Failure because the ensemble could not be reached."""
        return to_failure(error, f"ZooKeeper {self._ensemble}")

    async def _closed(self) -> None:
        def close() -> None:
            self._client.stop()
            self._client.close()

        await asyncio.get_running_loop().run_in_executor(None, close)


def _name_of(error: KazooException) -> str:
    return type(error).__name__.removesuffix("Error")


async def _settled(request: IAsyncResult) -> IAsyncResult:
    """Wait, in the event loop, until a request of kazoo is done."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    request.rawlink(lambda _: loop.call_soon_threadsafe(done.set))
    await done.wait()
    return request
