"""The znodes of a simulated ensemble: data, versions, transaction ids, and which of them end with a session.

Owned by `cluster`; read by `ports` and written to by brokers, by the driver of the quorum, and by the transaction of an
operator. It decides what ZooKeeper decides: whether a version fits, and that a transaction is done as a whole or not at
all. A server of the ensemble may be behind: `before` gives the znodes as they were a while ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.znodes import Znode

NO_NODE, BAD_VERSION = -101, -103
REMEMBERED_MS = 20_000
ANY = -1


class Refused(Exception):
    """A transaction of which nothing was done. `code`: as of `KeeperException.Code`; `path`: of the operation."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"{path}: {code}")
        self.code, self.path = code, path


class Operation(Struct, frozen=True):
    """One of a transaction. data None: nothing is written. deletes: the znode is deleted."""

    path: str
    version: int
    data: bytes | None = None
    deletes: bool = False


class Tree:
    """`now`: the time in ms."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._zxid = 0
        self._znodes: dict[str, Znode] = {}
        self._owners: dict[str, object] = {}
        self._past: deque[tuple[int, Mapping[str, Znode]]] = deque()

    @property
    def zxid(self) -> int:
        """The id of the last transaction."""
        return self._zxid

    def get(self, path: str) -> Znode | None:
        """None where it is absent."""
        return self._znodes.get(path)

    def below(self, root: str) -> Iterator[str]:
        """Names of the children of a path, in order."""
        start = f"{root}/"
        names = {path.removeprefix(start).split("/", 1)[0] for path in self._znodes if path.startswith(start)}
        yield from sorted(names)

    def before(self, ms: int) -> Mapping[str, Znode]:
        """All znodes as they were so many ms ago, as far as that is remembered."""
        until = self._now() - ms
        for at, znodes in self._past:  # each entry: what was there until then
            if at > until:
                return znodes
        return self._znodes

    def forget(self) -> None:
        """Every server is as far as this one."""
        self._past.clear()

    # --- what is written ---

    def create(self, path: str, data: bytes, *, owner: object = None) -> Znode:
        """A new znode; `owner`: the session that it ends with. ValueError where there is one."""
        if path in self._znodes:
            raise ValueError(f"{path} exists")
        self._begin()
        made = Znode(path, data, 0, self._zxid, is_ephemeral=owner is not None, mtime=self._now())
        self._znodes[path] = made
        if owner is not None:
            self._owners[path] = owner
        return made

    def write(self, path: str, data: bytes) -> None:
        """Set, or created where it is absent; nothing where that is there already."""
        there = self._znodes.get(path)
        if there is None:
            self.create(path, data)
        elif there.data != data:
            self._begin()
            self._znodes[path] = self._written(there, data)

    def delete(self, path: str) -> None:
        """With all that is below it; nothing where it is absent."""
        gone = [one for one in self._znodes if one == path or one.startswith(f"{path}/")]
        if gone:
            self._begin()
            for one in gone:
                del self._znodes[one]
                self._owners.pop(one, None)

    def end(self, owner: object) -> None:
        """A session is over: what it owned is gone."""
        for path in [path for path, one in self._owners.items() if one == owner]:
            self.delete(path)

    def transact(self, operations: tuple[Operation, ...]) -> None:
        """Do all of it, or nothing. Raises Refused."""
        for one in operations:
            there = self._znodes.get(one.path)
            if there is None:
                raise Refused(NO_NODE, one.path)
            if one.version not in (ANY, there.version):
                raise Refused(BAD_VERSION, one.path)
        self._begin()
        for one in operations:
            if one.deletes:
                del self._znodes[one.path]
                self._owners.pop(one.path, None)
            elif one.data is not None:
                self._znodes[one.path] = self._written(self._znodes[one.path], one.data)

    def _written(self, there: Znode, data: bytes) -> Znode:
        return replace(there, data=data, version=there.version + 1, mtime=self._now())

    def _begin(self) -> None:
        """One transaction more; what was there until now is remembered for a while."""
        self._zxid += 1
        now = self._now()
        self._past.append((now, dict(self._znodes)))
        while self._past[0][0] < now - REMEMBERED_MS:
            self._past.popleft()
