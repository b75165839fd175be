"""A new way to restart nodes is one module, one line of registration, its rights in the chart, its name in the CRD.

The two drivers in `new_drivers`, whose types are checked with those of the tests, are added to a copy of this tree. One
restarts a pod by an annotation, and rolls a cluster from the document to the status. The other follows the rolls of
another operator, which it asks for restarts, and withdraws what it asked for. (`make docs` makes the chart's copy of
the CRD.)
"""

from __future__ import annotations

import asyncio
import filecmp
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.driver_story import rolled_by

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("operator", "tests", "charts", "crds", "docs", "pyproject.toml", "README.md", "requirements")
HERE = Path(__file__).with_name("new_drivers")
ROOM = Path("operator/kafkafeatures/kube/workloads")
MODULES = ("annotations.py", "followed.py")
STATEFUL_SET_RULES = """{{- define "kafka-features-operator.statefulSetRules" -}}"""
RULES_OF_PODS = """{{- define "kafka-features-operator.NAME" -}}
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
{{- end -}}
"""
RULES = RULES_OF_PODS.replace("NAME", "annotationsRules") + RULES_OF_PODS.replace("NAME", "followedRules")
ROLE = '(include "kafka-features-operator.statefulSetRules" .)'
OF_OTHERS = " ".join(f'(include "kafka-features-operator.{name}Rules" .)' for name in ("annotations", "followed"))
ROLE_OF_ALL = f'(printf "%s\\n%s\\n%s" {ROLE} {OF_OTHERS})'
EDITS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "operator/kafkafeatures/core/roll/drivers.py": (
        (
            "(NOBODY, MANUAL, STATEFUL_SET, STRIMZI, PODS)",
            '(NOBODY, MANUAL, STATEFUL_SET, STRIMZI, PODS, ThroughPods("Annotations", "annotations", request="note"), '
            'ThroughPods("Followed", "followed", request="mark", restarts_outdated=False, asked="the other operator"))',
        ),
    ),
    "charts/kafka-features-operator/templates/rbac.yaml": (
        (STATEFUL_SET_RULES, RULES + STATEFUL_SET_RULES),
        (ROLE, ROLE_OF_ALL),
    ),
    "crds/kafkafeatures.yaml": (("Strimzi, Pods]", "Strimzi, Pods, Annotations, Followed]"),),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy of the tree, with the new driver in it."""
    root = tmp_path_factory.mktemp("tree")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "golden"))
        elif source.exists():
            shutil.copy(source, root)
    for module in MODULES:
        text = (HERE / module).read_text().replace("tests.contract.new_drivers", "kafkafeatures.kube.workloads")
        (root / ROOM / module).write_text(text)
    for file, edits in EDITS.items():
        text = (root / file).read_text()
        for old, new in edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (root / file).write_text(text)
    return root


def run(tree: Path, *command: str) -> str:
    """Run a command in the copy of the tree, with its modules."""
    paths = {"PYTHONPATH": f"{tree / 'operator'}:{tree}", "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=paths, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def touched(tree: Path) -> Iterator[str]:
    """Files of the product that differ from this tree."""
    for path in sorted(one for part in ("operator", "charts", "crds") for one in (tree / part).rglob("*.*")):
        name = path.relative_to(tree)
        if path.is_dir() or "__pycache__" in name.parts:
            continue
        if not (ROOT / name).exists() or not filecmp.cmp(path, ROOT / name, shallow=False):
            yield str(name)


def check(story: Mapping[str, Any], requests: list[str]) -> None:
    assert story["requests"] == requests
    assert [tuple(one) for one in story["history"]] == [
        ("RestartNode", f"broker-{ordinal}", "Applied") for ordinal in range(3)
    ]
    assert set(story["pods"].values()) == {"kafka:4.4.0"}
    assert (story["rolled"]["status"], story["rolled"]["reason"]) == ("True", "AllCurrent")


def test_a_new_driver_restarts_every_node_and_changes_three_files_beside_its_module(
    tree: Path,
) -> None:
    story = json.loads(run(tree, "-m", "tests.contract.driver_story", "Annotations"))
    check(story, [f"PATCH pods/broker-{ordinal}" for ordinal in range(3)])
    assert story["evictions"] == []
    assert story["notes"][0] == "restarting broker 1: pod broker-0 is restarted by note"
    besides = [one for one in touched(tree) if one not in {str(ROOM / module) for module in MODULES}]
    print(f"A new driver is {ROOM / MODULES[0]}, and besides:", *besides, sep="\n- ")
    assert besides == sorted(EDITS)
    assert len(besides) <= 3


def test_a_driver_that_follows_another_operator_waits_for_its_roll_and_withdraws_a_request(tree: Path) -> None:
    story = json.loads(run(tree, "-m", "tests.contract.driver_story", "Followed", "--follow"))
    assert story["waited"][0].startswith("the other operator has still to restart pod broker-0")
    assert story["rolled"] == ["0 of 3 nodes are current", "all 3 nodes are current"]
    assert story["requests"] == ["PATCH pods/broker-1"] * 3  # asked, withdrawn, asked again
    assert story["waited"][1].startswith("the other operator was asked to restart pod broker-1 (broker 2)")
    assert [tuple(entry) for entry in story["history"]] == [
        ("RestartNode", "broker-1", "NotApplied"),
        ("RestartNode", "broker-1", "Applied"),
    ]
    assert story["evictions"] == []


def test_the_existing_driver_restarts_the_same_nodes_by_evictions() -> None:
    story = asyncio.run(rolled_by("StatefulSet"))
    check(story, [f"POST pods/broker-{ordinal}/eviction" for ordinal in range(3)])
    assert story["evictions"] == ["broker-0", "broker-1", "broker-2"]
    assert story["notes"][0] == "restarting broker 1: pod broker-0 is evicted"


def test_the_tree_with_the_new_driver_passes_the_tests_of_every_driver(tree: Path) -> None:
    """These tests check the rights in the chart and the names in the CRD."""
    tests = ("tests/contract/test_chart.py", "tests/contract/test_crd.py", "tests/kafkafeatures/core/test_drivers.py")
    story = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", "driver or allow_the_same")
    assert "failed" not in story
