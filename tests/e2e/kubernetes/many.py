"""Many resources on one operator, each with a simulated cluster of its own: so many real ones would not run here."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Self

import pykube
import requests

from tests.e2e.kubernetes.resources import NS, Resources, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

PATH = f"/apis/kafkafeatures.dev/v1alpha1/namespaces/{NS}/kafkafeatures"
PROGRAM = ("tests.e2e.kubernetes.simulated_operator",)
WAITS = "kafkafeatures_queue_wait_seconds"
SECONDS = 600
"""How long is waited: no promise, machines differ."""


class Many:
    """With their operator, for as long as the block runs; they are deleted also after a failure."""

    def __init__(self, plane: ControlPlane, folder: Path, count: int) -> None:
        self.plane, self.count = plane, count
        install(plane)
        self.operator = Operator(plane, folder, program=PROGRAM)
        self._resources = Resources(plane)
        self._api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(plane.kubeconfig)))

    def __enter__(self) -> Self:
        self.operator.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.operator.kill()
        wait_until("all are deleted", self._deleted, SECONDS, step=1.0)

    def create(self) -> None:
        """Each to be raised by one level. Not by kubectl, which would take minutes: it asks five times a second."""
        for number in range(self.count):
            cluster = {"bootstrapServers": f"simulated:{number + 1}"}
            document = self._resources.document(_name(number), {"metadata.version": 27}, cluster=cluster, drift={})
            assert self._api.post(url=PATH, base="", version="", data=json.dumps(document)).status_code == 201

    def wait_settled(self) -> None:
        """All are at their level."""
        wait_until("all are ready", lambda: self._conditions(status="True") == self.count, SECONDS, step=2.0)

    def wait_passed(self) -> None:
        """Waits until every resource was reconciled since the operator started."""
        wait_until("all had a pass", lambda: self._conditions() == self.count, SECONDS, step=2.0)

    def touch(self, some: int) -> float:
        """Wake that many, one after the other: seconds within which 99 of 100 had their pass, as a bucket's bound."""
        before = self.operator.buckets(WAITS)
        for number in range(some):
            self._resources.annotate(_name(number), "touched=yes")
        wait_until("all woke up", lambda: self.operator.buckets(WAITS)[inf] - before[inf] >= some, SECONDS, step=1.0)
        waits = {bound: count - before[bound] for bound, count in self.operator.buckets(WAITS).items()}
        return min(bound for bound, count in waits.items() if count >= 0.99 * waits[inf])

    def figures(self, mark: int) -> str:
        """Reconciliations and memory of this life of the operator, and its writes since the mark; it says
        "simulated".
        """
        rows = self.plane.audit.rows(mark, user=USER)
        writes = Counter(row.resource for row in rows if row.verb in ("create", "update"))
        passes = self.operator.metric("kafkafeatures_reconciliations_total")
        return (
            f"{self.count} resources (simulated), {passes:.0f} passes, {writes['kafkafeatures']} writes of status, "
            f"{writes['events']} Events, {self.operator.memory} MiB with the simulated clusters in it"
        )

    def _deleted(self) -> bool:
        """One request; at so many the API server may take longer to answer than it is waited for."""
        with suppress(requests.Timeout):
            self._api.delete(url=PATH, base="", version="")
        return self.plane.read(f"{PATH}?limit=1").get("items") == []

    def _conditions(self, **labels: str) -> float:
        return self.operator.metric("kafkafeatures_condition", type="Ready", **labels)


def _name(number: int) -> str:
    return f"many-{number:04}"
