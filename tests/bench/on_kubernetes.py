"""The operator on a real API server and real Kafka: how soon it acts, and what it costs at rest.

Times are the API server's own, of its audit log: from its answer to the create until the operator comes back with the
controller's yes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pykube

from tests.e2e.kafka.wire import meddle
from tests.e2e.kubernetes.many import Many
from tests.e2e.kubernetes.resources import Resources, install
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

FEATURE = "share.version"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class Measured:
    """One control plane and one operator, for as long as the benchmark runs."""

    def __init__(self, plane: ControlPlane, kafka: Cluster, folder: Path) -> None:
        self.plane, self.kafka, self.folder = plane, kafka, folder
        install(plane)
        self.resources = Resources(plane, kafka)
        self.api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(plane.kubeconfig)))
        self.path = f"/apis/kafkafeatures.dev/v1alpha1/namespaces/{self.resources.namespace}/kafkafeatures"
        self.numbers = 0

    def create(self, levels: dict[str, int | str], **spec: object) -> str:
        self.numbers += 1
        name = f"bench-{self.numbers}"
        document = self.resources.document(name, levels, drift={}, **spec)
        answer = self.api.post(url=self.path, base="", version="", data=json.dumps(document))
        assert answer.status_code == 201, answer.text
        return name

    def delete(self, name: str) -> None:
        self.api.delete(url=f"{self.path}/{name}", base="", version="")

    def reaction(self) -> float:
        """Seconds from the answer to the create to the controller's yes. A new resource: nothing is open or known."""
        meddle(self.kafka, FEATURE, 0)
        mark = self.plane.audit.mark()
        name = self.create({FEATURE: 1})
        rows = self.plane.audit.wait_for(lambda rows: len(rows) >= 4, mark, subresource="status", name=name, user=USER)
        (created,) = self.plane.audit.rows(mark, verb="create", resource="kafkafeatures")
        self.delete(name)
        # Pending, the intent, the yes, in sync.
        return (rows[2].at - created.answered).total_seconds()


def operator(
    rounds: int,
    kafka: Cluster,
    interleaved: Callable[..., tuple[list[float], list[float]]],
    theirs: Callable[[], float],
    pair: Callable[..., None],
    resources: int,
    rest: tuple[float, float],
    python: str,
) -> None:
    """Start, reaction against Kafka's own tool, then the cost of many resources at rest. `python` runs it."""
    with temporary_folder() as folder, ControlPlane(folder / "plane") as plane:
        measured = Measured(plane, kafka, folder)
        waiting, mark = measured.create({}, mode="Observe"), plane.audit.mark()
        began = datetime.now(UTC)
        with Operator(plane, folder / "operator", python=python) as running:
            ready = _since(began)
            first, last = plane.audit.wait_for(lambda rows: len(rows) >= 2, mark, subresource="status", user=USER)
            print(
                f"operator, from its start: listed and ready {ready:.2f} s, first status "
                f"{_since(began, first.answered):.2f} s, in sync {_since(began, last.answered):.2f} s"
            )
            measured.delete(waiting)
            ours, other = interleaved(measured.reaction, theirs, rounds)
            pair("operator: API server's answer to the controller's yes", ours, "FeatureCommand upgrade", other)
            print(f"  p50 {1000 * statistics.median(ours):.0f} ms; memory {running.memory} MiB")
            at_rest(measured, running, resources, rest)


def many(count: int) -> None:
    """Many resources on simulated clusters: raised, woken up one after the other, and a new start."""
    with (
        temporary_folder() as folder,
        ControlPlane(folder / "plane") as plane,
        Many(plane, folder / "operator", count) as there,
    ):
        mark, began = plane.audit.mark(), time.perf_counter()
        there.create()
        there.wait_settled()
        print(f"created to settled: {time.perf_counter() - began:.0f} s; {there.figures(mark)}")
        print(f"99 of 100 passes began within {there.touch(min(count, 100)):g} s of their wake-up")
        there.operator.stop()
        mark, began = plane.audit.mark(), time.perf_counter()
        there.operator.start()
        there.wait_passed()
        print(f"start to settled: {time.perf_counter() - began:.0f} s; {there.figures(mark)}")


def at_rest(measured: Measured, running: Operator, count: int, rest: tuple[float, float]) -> None:
    """Resources that observe one cluster, each on its own, looked at once a minute."""
    first_look, watched = rest
    names = [measured.create({}, mode="Observe") for _ in range(count)]
    wait_until("all are ready", lambda: running.metric("kafkafeatures_condition", type="Ready", status="True") == count)
    time.sleep(first_look)  # each had its first look at rest
    mark, before, passes = measured.plane.audit.mark(), running.cpu_seconds, _reconciliations(running)
    time.sleep(watched)
    used = running.cpu_seconds - before
    writes = [row for row in measured.plane.audit.rows(mark, user=USER) if row.verb in ("update", "create")]
    held = running.connections([node.port for node in measured.kafka.nodes.values()])
    print(
        f"operator at rest, {count} resources, {watched:.0f} s: {running.memory} MiB, "
        f"{1000 * used / watched:.1f} millicores, {_reconciliations(running) - passes:.0f} reconciliations, "
        f"{len(writes)} writes, "
        f"{held} connections to Kafka"
    )
    for name in names:
        measured.delete(name)


def _reconciliations(running: Operator) -> float:
    return running.metric("kafkafeatures_reconciliations_total")


def _since(began: datetime, until: datetime | None = None) -> float:
    """Seconds."""
    return ((until or datetime.now(UTC)) - began).total_seconds()
