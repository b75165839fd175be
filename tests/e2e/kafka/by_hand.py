"""A person who runs `apply` on a document with the driver Manual, and does what it asks for: with ZooKeeper."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any, Generic, TypeVar

import yaml

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.kafka.cli import KAFKAFEATURES, run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until

How = TypeVar("How")


def document(cluster: MigratingCluster, *, controllers: bool = True, **spec: Any) -> dict[str, Any]:
    """The document of a cluster whose nodes a person restarts. `controllers`: whether it names any."""
    where = {"bootstrapServers": cluster.bootstrap_servers, "zookeeper": {"connect": cluster.ensemble}}
    if controllers:
        where["bootstrapControllers"] = cluster.bootstrap_controllers
    spec = {"cluster": where, "workload": {"driver": "Manual"}, **spec}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": spec}


class Person(ABC, Generic[How]):
    """`restarted`: the nodes that were restarted, each with how it was."""

    patience: float
    """Seconds for one `apply`."""

    def __init__(self, cluster: MigratingCluster, folder: Path) -> None:
        self.cluster, self.file = cluster, folder / "orders.yaml"
        self.restarted: list[tuple[int, How]] = []

    @abstractmethod
    def asked_in(self, says: str) -> tuple[int, How] | None:
        """The node that is to be restarted by this message of Ready, and how."""

    @abstractmethod
    def restart(self, id_: int, how: How) -> None:
        """Do so."""

    def meanwhile(self, says: str) -> None:
        """Do what else this message asks for."""

    def writes(self, *, controllers: bool = True, **spec: Any) -> None:
        self.file.write_text(yaml.safe_dump(document(self.cluster, controllers=controllers, **spec)))

    @property
    def status(self) -> dict[str, Any]:
        state = self.file.with_suffix(".status.yaml")
        return dict(yaml.safe_load(state.read_text())["status"]) if state.exists() else {}

    @property
    def ready(self) -> Mapping[str, str]:
        """The condition Ready."""
        return next((one for one in self.status.get("conditions", ()) if one["type"] == "Ready"), {})

    def says(self) -> str:
        """The message of Ready."""
        return self.ready.get("message", "")

    def plan(self) -> str:
        done = run("plan", "-f", str(self.file))
        return " ".join((done.stdout + done.stderr).split())  # a table is cut into lines

    def apply(
        self,
        *flags: str,
        killed_after: int | None = None,
        accidents: dict[int, Callable[[], object]] | None = None,
        codes: Container[int] = (0,),
    ) -> int:
        """Until it ends by itself with one of these exit codes, which is returned, or is killed once so many nodes were
        restarted. `accidents`: what happens after so many restarts, earlier calls included; each is taken out.
        """
        left = {} if accidents is None else accidents
        command = [*KAFKAFEATURES, "apply", "-f", str(self.file), "--yes", "--timeout", "3m", *flags]
        done: list[tuple[int, How]] = []
        before = self.says() if self.asked_in(self.says()) else None  # of a process that was killed
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:

            def over() -> bool:
                says = self.says()
                one = self.asked_in(says)
                if says != before and one is not None and one not in done:
                    done.append(one)
                    self.restart(*one)
                self.meanwhile(says)
                left.pop(len(self.restarted) + len(done), bool)()
                if len(done) == killed_after:
                    running.kill()
                return running.poll() is not None

            try:
                wait_until("apply ends", over, self.patience, step=0.2)
            except AssertionError as error:
                raise AssertionError(f"{error}; it says {self.says()}") from None
            assert running.stderr is not None
            self.restarted += done
            assert running.returncode in (codes if killed_after is None else (-SIGKILL,)), running.stderr.read()
        return running.returncode
