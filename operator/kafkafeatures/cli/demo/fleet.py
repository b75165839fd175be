"""`kafkafeatures demo --story fleet`: from the metadata logs of a generated fleet of clusters to pages about it.

It writes a small generated fleet, as old as now, into a folder of its own, and runs `pipeline run`, `gate` and `report`
on it. Only the pages stay. No Spark and no Java: twelve clusters are read on one core.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from kafkafeatures.cli.demo.stage import Demonstration
from kafkafeatures.cli.demo.text import not_the_story, tell, title
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit, to_install

_CONFIG = """\
inputs: [fleet/logs]
documents: fleet/documents
output: tables
spark: {enabled: false}
"""
_RELEASE = "4.2"
"""The target of the gate."""


def tell_the_fleet() -> None:
    """Play the story. Raises CommandFailed if something is missing, or differs from what the story says."""
    if find_spec("pyarrow") is None:
        raise CommandFailed(f"--story fleet needs pyarrow: {to_install('pipeline')}", Exit.FAILED)
    from kafkasim.fleet.fleet import write_fleet
    from kafkasim.fleet.plan import SMALL

    with tempfile.TemporaryDirectory(prefix="kafkafeatures-demo-") as folder:
        stage = Demonstration(Path(folder))
        title("Which clusters of a fleet are blocked from a release?")
        tell(
            f"This is a GENERATED fleet: copies of the metadata logs of {SMALL.clusters} clusters, as Kafka's "
            f"retention leaves them after {SMALL.days} days. The records are real ones, but no Kafka wrote them. The "
            "commands below are the real ones."
        )
        write_fleet(Path(folder) / "fleet", SMALL, until_ms=int(time.time() * 1000))
        stage.show_file(stage.write("pipeline.yaml", _CONFIG))
        tell("Make tables of them. So few need no Spark; without the last line they are read on Spark, with Java 17.")
        config_flag = ("--config", "pipeline.yaml")
        stage.run(("pipeline", "run", *config_flag), code=Exit.DONE, shows=(f"{SMALL.clusters} clusters",))

        tell(f"May they be taken to {_RELEASE}? A line for each cluster, and an exit code for a pipeline.")
        command = ("pipeline", "gate", *config_flag, "--release", _RELEASE)
        stage.run((*command, "-o", "text"), code=Exit.BLOCKED, shows=("blocked", "ready"))

        document = json.loads(stage.quiet(command, code=Exit.BLOCKED))  # to find a cluster that is ready
        ready = next((cluster["cluster"] for cluster in document["clusters"] if cluster["verdict"] == "ready"), None)
        if ready is None:
            raise not_the_story("no cluster is ready")
        tell("One of them alone:")
        cluster_command = (*command, "--cluster", ready, "-o", "text")
        stage.run(cluster_command, code=Exit.DONE, shows=(f"{ready}: ready",))

        tell("And as pages for people: ghost registrations, drift, a migration that is stuck, rolls.")
        command = ("pipeline", "report", *config_flag, "--release", _RELEASE)
        stage.run((*command, "--html", "pages"), code=Exit.DONE, shows=("fleet.html",))
        # Only now, so that a story that was ended leaves no folder.
        pages = Path(tempfile.mkdtemp(prefix="kafkafeatures-fleet-"))
        shutil.copytree(Path(folder) / "pages", pages, dirs_exist_ok=True)
    tell(f"Open {pages / 'fleet.html'} in a browser. Only these pages stay.")
