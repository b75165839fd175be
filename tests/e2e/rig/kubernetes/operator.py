"""The operator as a process of its own, outside of pods, with the rights of one ServiceAccount and no others.

with Operator(plane, folder) as operator:
    operator.kill(); operator.start()
    operator.metric("kafkafeatures_reconciliations_total", result="failed")
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.process import Daemon, free_port

NAMESPACE, ACCOUNT = "operator", "kafka-features-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Operator(Daemon):
    """See the prologue. The account and its rights are there already; `namespaces` none: all of them.

    `kubeconfig`: another one than the account's. `before`: words of the command line before that of `python`.
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *namespaces: str,
        flags: tuple[str, ...] = (),
        program: tuple[str, ...] = ("kafkafeatures", "run"),
        kubeconfig: Path | None = None,
        before: tuple[str, ...] = (),
        python: str = sys.executable,
    ) -> None:
        self.plane, self.folder = plane, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        watched = [word for one in namespaces for word in ("--namespace", one)]
        command = [*before, python, "-m", *program, "--listen", f"127.0.0.1:{self.port}", *watched, *flags]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or plane.kubeconfig_of(NAMESPACE, ACCOUNT))}
        super().__init__(command, folder / "log", lambda: self.asked("/readyz")[0] == 200, environment)

    @property
    def name(self) -> str:
        return "the operator"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def asked(self, path: str) -> tuple[int, str]:
        """Code and text of one of its pages; 0 where it does not answer."""
        try:
            with _DIRECT.open(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, /, **labels: str) -> float:
        """The sum of all series with these labels."""
        return sum(one.value for one in self._samples(name, *labels.values()) if labels.items() <= one.labels.items())

    def buckets(self, name: str) -> dict[float, float]:
        """The buckets of a histogram without labels: how many values were not above each bound."""
        return {float(one.labels["le"]): one.value for one in self._samples(f"{name}_bucket")}

    def connections(self, ports: Collection[int]) -> int:
        """How many it holds to these ports of this machine."""
        targets = (os.readlink(one) for one in Path(f"/proc/{self.pid}/fd").iterdir())
        ours = {target[8:-1] for target in targets if target.startswith("socket:[")}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[9] in ours and int(row[2].rpartition(":")[2], 16) in ports for row in rows)

    def _samples(self, name: str, *words: str) -> Iterator[Sample]:
        """Only lines with these words are parsed: of a thousand resources, all would take a second."""
        lines = (one for one in self.asked("/metrics")[1].splitlines() if all(word in one for word in (name, *words)))
        families = text_string_to_metric_families("\n".join(lines))
        return (sample for family in families for sample in family.samples if sample.name == name)

    @property
    def cpu_seconds(self) -> float:
        """Used so far, by all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> int:
        """Resident, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024
