"""The commands of docs/how-to/install.md for a cluster of kind name the same image and the same cluster."""

from __future__ import annotations

import shlex

import pytest
import yaml

from tests.e2e.kubernetes.chart.rendering import ROOT, helm, pod_spec, strictly
from tests.e2e.rig.kubernetes.binaries import KUBERNETES
from tests.e2e.rig.kubernetes.kind import CONFIG

Words = list[str]


@pytest.fixture(scope="module")
def commands() -> dict[str, Words]:
    """The words of each command in the section, by its first two words."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    section = page.partition("\n## On one machine, with kind\n")[2].partition("\n## ")[0].replace("\\\n", " ")
    split = [shlex.split(line) for line in section.splitlines() if line.startswith("    ")]
    return {" ".join(words[:2]): words for words in split}


def after(option: str, words: Words) -> str:
    return words[words.index(option) + 1]


def test_the_pod_has_the_image_that_was_built_and_loaded_and_pulls_none(commands: dict[str, Words]) -> None:
    _, _, release, chart, *rest = commands["helm install"]
    done = helm("template", release, str(ROOT / chart), "--kube-version", KUBERNETES, *rest)
    assert done.returncode == 0, done.stderr
    (container,) = pod_spec(strictly(done.stdout))["containers"]
    assert container["image"] == after("-t", commands["docker build"]) == commands["kind load"][3]
    assert container["imagePullPolicy"] == "IfNotPresent"


def test_the_image_is_loaded_into_the_cluster_of_the_config(commands: dict[str, Words]) -> None:
    assert ROOT / after("--config", commands["kind create"]) == CONFIG
    assert after("--name", commands["kind load"]) == yaml.safe_load(CONFIG.read_text())["name"]


def test_the_namespace_that_the_operator_watches_is_created_before(commands: dict[str, Words]) -> None:
    assert f"watchNamespaces={{{commands['kubectl create'][3]}}}" in commands["helm install"]
    assert list(commands).index("kubectl create") < list(commands).index("helm install")
