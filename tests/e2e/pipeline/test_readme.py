"""The README's part about the metadata logs of many clusters: its commands are run in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL
from tests.e2e.pipeline.sparks import ROOT, one_at_a_time
from tests.featurelog.inputs import tables

SCALE = replace(SMALL, clusters=6, days=3, kept_days=2, partitions=3)


def readme() -> str:
    """The commands of README. They install from the folder of the repository; here they run in another folder, and the
    package is installed already, so they name it instead.
    """
    part = (ROOT / "README.md").read_text().partition("\n## Analyze the metadata logs of many clusters\n")[2]
    commands = part.partition("```sh\n")[2].partition("```")[0]
    assert "\npip install '.[" in f"\n{commands}"
    return commands.replace("'.[", "'kafka-features-operator[")


def output_of(commands: str, folder: Path) -> str:
    """Run the commands in a shell. The packages that pip installs are there already, in the versions of the lock
    files.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=folder, env={**os.environ, "PATH": path, "PIP_NO_INDEX": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_commands_of_the_readme_write_tables_on_spark_and_the_second_run_reads_nothing_new(tmp_path: Path) -> None:
    write_fleet(tmp_path / "fleet", SCALE)
    (tmp_path / "logs").symlink_to("fleet/logs")
    with one_at_a_time():
        first = output_of(readme(), tmp_path)
    assert "pipeline: 6 clusters, " in first
    assert ", 0 damaged; " in first
    assert "Spark on local[*]; tables in " in first
    assert "pipeline: nothing new in 6 clusters; tables in " in output_of(readme(), tmp_path)
    made = tables(tmp_path / "tables")
    assert all(made[name] for name in ("metadata_records", "feature_timeline", "upgrade_readiness"))
