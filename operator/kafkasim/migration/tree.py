"""The znodes of a simulated ZooKeeper ensemble: data, versions, transaction ids, and ephemeral owners.

Owned by `cluster`; read by `ports`; written by brokers, by the driver of the quorum, and by the operator's transaction.
It checks versions, and applies a transaction as a whole or not at all, like ZooKeeper. A server may be behind: `before`
returns the znodes of a while ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.znodes import Znode

NO_NODE, BAD_VERSION = -101, -103  # of `KeeperException.Code`
REMEMBERED_MS = 20_000
"""Time in ms for which earlier states are remembered: a server may be behind by as much."""
ANY = -1
"""Version of an operation that fits every version of a znode."""


class Refused(Exception):
    """A transaction that was not applied. `code`: of `KeeperException.Code`; `path`: of the operation that failed."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"{path}: {code}")
        self.code, self.path = code, path


class Operation(Struct, frozen=True):
    """An operation of a transaction. data None: only check the version. deletes: delete the znode."""

    path: str
    version: int
    data: bytes | None = None
    deletes: bool = False


class Tree:
    """The znodes by path. `now_ms`: returns the time in ms."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now = now_ms
        self._zxid = 0
        self._znodes: dict[str, Znode] = {}
        self._owners: dict[str, object] = {}
        self._past: deque[tuple[int, Mapping[str, Znode]]] = deque()  # time in ms, and the znodes until then

    def get(self, path: str) -> Znode | None:
        """The znode at this path; None where it is absent."""
        return self._znodes.get(path)

    def below(self, root: str) -> Iterator[str]:
        """Names of the children of a path, in order."""
        start = f"{root}/"
        names = {path.removeprefix(start).split("/", 1)[0] for path in self._znodes if path.startswith(start)}
        yield from sorted(names)

    def before(self, ms: int) -> Mapping[str, Znode]:
        """All znodes as they were so many ms ago, as far as that is remembered."""
        until = self._now() - ms
        for replaced_ms, znodes in self._past:  # the first state that was still there at that time
            if replaced_ms > until:
                return znodes
        return self._znodes

    def forget(self) -> None:
        """Forget earlier states: all servers are up to date."""
        self._past.clear()

    # --- what is written ---

    def create(self, path: str, data: bytes, *, owner: object = None) -> Znode:
        """Create a znode. Raises ValueError if it exists. `owner`: session with which it ends; None: it stays."""
        if path in self._znodes:
            raise ValueError(f"{path} exists")
        self._begin()
        znode = Znode(path, data, 0, self._zxid, is_ephemeral=owner is not None, mtime=self._now())
        self._znodes[path] = znode
        if owner is not None:
            self._owners[path] = owner
        return znode

    def write(self, path: str, data: bytes) -> None:
        """Set or create a znode; nothing if it has this data already."""
        znode = self._znodes.get(path)
        if znode is None:
            self.create(path, data)
        elif znode.data != data:
            self._begin()
            self._znodes[path] = self._written(znode, data)

    def delete(self, path: str) -> None:
        """Delete a znode and all below it; nothing if it is absent."""
        gone = [below_path for below_path in self._znodes if below_path == path or below_path.startswith(f"{path}/")]
        if gone:
            self._begin()
            for below_path in gone:
                del self._znodes[below_path]
                self._owners.pop(below_path, None)

    def end(self, owner: object) -> None:
        """End a session: its ephemeral znodes are deleted."""
        for path in [path for path, path_owner in self._owners.items() if path_owner == owner]:
            self.delete(path)

    def transact(self, operations: tuple[Operation, ...]) -> None:
        """Apply all operations, or none. Raises Refused."""
        for operation in operations:
            znode = self._znodes.get(operation.path)
            if znode is None:
                raise Refused(NO_NODE, operation.path)
            if operation.version not in (ANY, znode.version):
                raise Refused(BAD_VERSION, operation.path)
        self._begin()
        for operation in operations:
            if operation.deletes:
                del self._znodes[operation.path]
                self._owners.pop(operation.path, None)
            elif operation.data is not None:
                self._znodes[operation.path] = self._written(self._znodes[operation.path], operation.data)

    def _written(self, znode: Znode, data: bytes) -> Znode:
        return replace(znode, data=data, version=znode.version + 1, mtime=self._now())

    def _begin(self) -> None:
        """Begin a transaction: count it, and remember for a while what was there before."""
        self._zxid += 1
        now_ms = self._now()
        self._past.append((now_ms, dict(self._znodes)))
        while self._past[0][0] < now_ms - REMEMBERED_MS:
            self._past.popleft()
