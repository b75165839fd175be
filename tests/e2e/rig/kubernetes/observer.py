"""An observer of a Kafka cluster that is not the product's: `Observer.java`, on Kafka's own client, as a process.

with Observer(racks, folder, "orders") as observer:
    mark = observer.mark()
    ...
    assert observer.complaints(mark) == [] and observer.verified()["lost"] == []
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

from tests.e2e.rig.kubernetes.binaries import run
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.process import ENVIRONMENT, Daemon, wait_until
from tests.e2e.rig.releases import JVM, MIDDLE, release

SOURCE = Path(__file__).with_name("Observer.java")
CLIENT = MIDDLE
REPLICAS = 3


class Observer(Daemon):
    """See the prologue. It starts once the topics are there, and ends with the test process at the latest."""

    def __init__(self, racks: Racks, folder: Path, *topics: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        class_path = f"{folder}:{release(CLIENT).class_path}"
        run("javac", "-J-XX:TieredStopAtLevel=1", "-d", folder, "-cp", class_path, SOURCE, env=ENVIRONMENT)
        os.mkfifo(folder / "input")
        logging = f"-Dlog4j.configuration=file:{release(CLIENT).home}/tool.properties"
        ttl = "-Dsun.net.inetaddr.ttl=1"
        java = ["java", *JVM, ttl, logging, "-cp", class_path, "Observer", racks.addresses("brokers"), ",".join(topics)]
        command = racks.with_names("sh", "-c", 'exec "$@" <"$0" 2>"$0.errors"', folder / "input", *java)
        super().__init__(command, folder / "observer.log", lambda: bool(self.lines(kind="writes")))
        self._input: int | None = None

    def __enter__(self) -> Self:
        self._input = os.open(self.log_file.with_name("input"), os.O_RDWR)
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
        if self._input is not None:
            os.close(self._input)

    def mark(self) -> int:
        """Here; for `since`."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def lines(self, since: int = 0, kind: str = "") -> list[dict[str, Any]]:
        """What it said after a mark, whole lines only."""
        if not self.log_file.exists():
            return []
        with self.log_file.open("rb") as file:
            file.seek(since)
            found = [json.loads(line) for line in file if line.endswith(b"\n")]
        return [one for one in found if kind in ("", one["kind"])]

    def complaints(self, since: int = 0) -> list[dict[str, Any]]:
        """Records that were refused, and what a broker said of in-sync replicas below the minimum."""
        assert self.alive, f"the observer ended:\n{self.log[-2000:]}"
        return [one for one in self.lines(since) if one["kind"] in ("error", "below")]

    def in_sync(self) -> bool:
        """Every broker says so of every partition: all of its replicas."""
        last = {(one["by"], one["partition"]): one["isr"] for one in self.lines() if one["kind"] in ("isr", "below")}
        return all(len(isr) == REPLICAS for isr in last.values())

    def verified(self) -> dict[str, Any]:
        """`acknowledged` (how many), and which of them are `lost`, or `unseen` by the consumer; the `slowest` in ms."""
        assert self._input is not None
        mark = self.mark()
        os.write(self._input, b"verify\n")
        wait_until("the observer has read everything", lambda: self.lines(mark, "verified"), 60)
        return self.lines(mark, "verified")[0]
