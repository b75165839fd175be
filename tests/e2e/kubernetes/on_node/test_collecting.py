"""Metadata logs of real pods are copied by the script that users read, while Kafka writes them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import yaml

from kraftlog import files
from tests.contract.collecting import PAGE, collect
from tests.e2e.kubernetes.resources import account
from tests.e2e.rig.kubernetes.binaries import binary
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.kafka import Kafka
from tests.featurelog.inputs import run as run_pipeline
from tests.kafkasim.commands import command

WHO = "collects-metadata-logs"
RULES = next(
    yaml.safe_load(block.partition("```")[0])["rules"]
    for block in PAGE.read_text().split("```yaml\n")[1:]
    if "kind: Role" in block.partition("```")[0]
)


@dataclass(frozen=True)
class Collector:
    """A user with the rights that the page lists."""

    kafka: Kafka
    plane: ControlPlane
    folder: Path
    kubeconfig: Path

    def collects(self, selector: str = "app=kafka") -> subprocess.CompletedProcess[str]:
        variables = {"KUBECONFIG": str(self.kubeconfig), "NAMESPACE": self.kafka.namespace, "SELECTOR": selector}
        return collect(self.folder, "orders", {**variables, "LOG_DIR": '"/data/$POD"'}, binary("kubectl").parent)


@pytest.fixture
def collector(kafka_on_node: Kafka, tmp_path: Path) -> Iterator[Collector]:
    plane, namespace = cast("ControlPlane", kafka_on_node.node.control_plane), kafka_on_node.namespace
    account(plane, namespace, WHO, RULES)
    yield Collector(kafka_on_node, plane, tmp_path, plane.kubeconfig_of(namespace, WHO))
    plane.kubectl("delete", "serviceaccount,role,rolebinding", WHO, "-n", namespace)


def test_every_node_is_copied_while_it_writes_and_each_copy_is_complete(collector: Collector) -> None:
    done = collector.collects()
    assert done.returncode == 0, done.stderr
    copies = collector.folder / "logs" / "orders"
    assert sorted(one.name for one in copies.iterdir()) == ["1", "101", "102"]
    for one in copies.iterdir():
        verified = command(["log", "verify", str(one)])
        assert verified.returncode == 0, verified.stdout + verified.stderr
    summary = run_pipeline([copies.parent], collector.folder / "tables")
    assert (summary.clusters, summary.problems, summary.doubts) == (1, [], [])
    assert not sum(share["bytes"] for share in summary.account.get("damaged", {}).values())


def test_a_later_copy_continues_the_earlier_one(collector: Collector) -> None:
    """Even an idle controller writes twice a second, so one of the next copies has more records than the first."""
    log = collector.folder / "logs" / "orders" / "1" / files.DIRECTORY / f"{0:020}.log"
    assert collector.collects("role=controller").returncode == 0
    first = log.read_bytes()
    while len(log.read_bytes()) == len(first):
        assert collector.collects("role=controller").returncode == 0
    assert log.read_bytes().startswith(first)


def test_the_script_uses_exactly_the_rights_that_the_page_grants(collector: Collector) -> None:
    mark, user = collector.plane.audit.mark(), f"system:serviceaccount:{collector.kafka.namespace}:{WHO}"
    assert collector.collects().returncode == 0
    rows = collector.plane.audit.rows(mark, user=user, resource="pods")
    assert not [row for row in rows if row.code == 403]
    granted = {(verb, one) for rule in RULES for one in rule["resources"] for verb in rule["verbs"]}
    used = {(row.verb, f"{row.resource}/{row.subresource}".rstrip("/")) for row in rows}
    assert used <= granted
    assert {one for _, one in used} == {one for _, one in granted}


def test_no_log_is_copied_without_the_right_to_exec_and_kubectl_names_the_right(collector: Collector) -> None:
    without = [rule for rule in RULES if rule["resources"] == ["pods"]]
    account(collector.plane, collector.kafka.namespace, WHO, without)
    done = collector.collects()
    assert done.returncode == 1
    assert "pods/exec" in done.stderr
    assert done.stderr.count("not copied") == 3
    assert not list((collector.folder / "logs" / "orders").iterdir())
