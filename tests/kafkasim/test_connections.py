"""Commands that reach a simulated cluster by a document, a profile or the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafkasim.commands import shell
from tests.kafkasim.documents import document
from tests.kafkasim.test_process import heard, simulator


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with simulator("--ghost-broker", "9=4.0", "--metadata-version", "25") as process:
        yield str(heard(process)["bootstrapServers"])


@pytest.mark.parametrize("way", ["-f levels.yaml", "--profile sim", "environment"])
def test_the_cluster_is_named_in_each_way_and_the_remedy_reaches_it(servers: str, way: str, tmp_path: Path) -> None:
    document(tmp_path, {"bootstrapServers": servers}, {"metadata.version": 29})
    (tmp_path / "kafkafeatures").mkdir()
    (tmp_path / "kafkafeatures" / "config.toml").write_text(f"[profiles.sim]\nbootstrap-server = '{servers}'\n")
    variables = f"COLUMNS=200 XDG_CONFIG_HOME={tmp_path}"
    if way == "environment":
        way, variables = "", f"{variables} KAFKAFEATURES_BOOTSTRAP_SERVER={servers}"
    described = shell(f"{variables} kafkafeatures describe {way} | cat", tmp_path)
    assert described.returncode == 0, described.stderr
    remedy = next(line.strip() for line in described.stdout.splitlines() if "kafkafeatures unregister" in line)
    assert shell(f"{variables} kafkafeatures check {way} | cat", tmp_path).stdout.startswith("Blocked\n")
    asks, has_no_stdin = (shell(f"{remedy} {stdin}", tmp_path) for stdin in ("< /dev/null", "<&-"))
    source = "; the connection is that of spec.cluster of levels.yaml" if "-f" in way else ""
    named = f"cluster at {servers}{source}\n"
    refused = "kafkafeatures: not a terminal; use --yes to skip confirmation; nothing was changed\n"
    assert (asks.returncode, asks.stderr) == (3, named + refused)
    assert (has_no_stdin.returncode, has_no_stdin.stderr) == (3, named + refused)


@pytest.mark.parametrize(
    ("command", "system"),
    [
        ("migration compare --zookeeper 127.0.0.1:1", "ZooKeeper"),
        ("migration settings --to PreMigration --zookeeper 127.0.0.1:1", "ZooKeeper"),
        ("describe --zookeeper 127.0.0.1:1", "ZooKeeper"),
        ("clients check --release 4.2 --prometheus http://127.0.0.1:1", "Prometheus"),
    ],
)
def test_another_system_that_is_away_is_not_said_to_be_of_the_profile_of_the_cluster(
    servers: str, tmp_path: Path, command: str, system: str
) -> None:
    (tmp_path / "kafkafeatures").mkdir()
    (tmp_path / "kafkafeatures" / "config.toml").write_text(f"[profiles.sim]\nbootstrap-server = '{servers}'\n")
    done = shell(f"XDG_CONFIG_HOME={tmp_path} kafkafeatures {command} --profile sim", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (5, 1)
    assert done.stderr.startswith(f"kafkafeatures: {system} ")
    assert "profile" not in done.stderr
