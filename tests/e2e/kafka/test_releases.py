"""The table of releases, compared with Kafka's own tool and with the answers of nodes of each release."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkafeatures.core.facts.releases import METADATA_VERSIONS, bundle, dependencies
from kafkafeatures.kafka.base.api_names import API_NAMES
from kafkasim.releases import release_named
from tests.e2e.kafka.cli import describe, node, run
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT, release

PRODUCTION = {OLD: 21, MIDDLE: 27, RECENT: 30, NEWEST: 33}
"""The highest metadata.version each release supports."""


def tool(*words: str) -> str:
    command = release(NEWEST).java("org.apache.kafka.tools.FeatureCommand", *words, log4j="tool")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["3.9", "4.0-IV0", "4.0-IV2", "4.0", "4.1-IV0", "4.1", "4.2-IV0", "4.2", "4.3", "4.4-IV0", "4.4"]
)
def test_the_levels_of_a_release_are_those_of_the_version_mapping_of_the_newest_tool(name: str) -> None:
    theirs = dict(re.findall(r"^([\w.]+)=(\d+)", tool("version-mapping", "--release-version", name), re.MULTILINE))
    ours = {"kraft.version": 1, **(bundle(name) or {})}  # the tool raises it with a release; `bundle` does not
    assert {feature: int(level) for feature, level in theirs.items() if level != "0"} == ours


def test_dependencies_of_features_are_those_of_the_newest_tool() -> None:
    wanted = {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2, "share.version": 2}
    flags = [word for feature, level in wanted.items() for word in ("--feature", f"{feature}={level}")]
    output = tool("feature-dependencies", *flags)
    found = re.findall(r"^([\w.]+)=\d+ requires:\n((?:    .*\n?)+)", output, re.MULTILINE)
    theirs = {feature: dict(re.findall(r"([\w.]+)=(\d+)", needs)) for feature, needs in found}
    for feature, level in wanted.items():
        ours = {
            name: str(least) for name, least in dependencies(feature, level).items() if least > 7
        }  # the tool leaves out 7, the lowest level
        assert theirs.get(feature, {}) == ours


@pytest.mark.parametrize("version", PRODUCTION)
def test_the_newest_level_of_each_release_is_in_the_table_by_its_name(
    version: str, borrow: Callable[[str], Cluster]
) -> None:
    cluster = borrow(f"small {version}")
    document = describe(cluster, "--apis")
    assert node(document, 1)["features"]["metadata.version"]["max"] == PRODUCTION[version]
    theirs = cluster.features()["metadata.version"]
    newest = max(level for level in METADATA_VERSIONS if level <= PRODUCTION[version])
    assert theirs[1] == METADATA_VERSIONS[newest].name
    row = release_named(version)
    for id_, apis in ((1, row.broker_apis), (3001, row.controller_apis)):  # the simulator has a copy of these values
        real = node(document, id_)
        assert real["features"] == {name: {"min": r.min, "max": r.max} for name, r in row.features.items()}
        assert real["apis"] == {API_NAMES[key]: {"min": r.min, "max": r.max} for key, r in apis.items()}


def test_an_unknown_release_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "levels.yaml"
    path.write_text(
        "apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {name: orders}\n"
        "spec: {cluster: {bootstrapServers: 'k:1'}, features: {releaseVersion: '9.9'}}\n"
    )
    done = run("plan", "-f", str(path))
    assert done.returncode == 4
    assert (
        "spec.features.releaseVersion: unknown Kafka release '9.9'; name levels instead, or use a newer version"
        in done.stderr
    )
