"""`kafkafeatures demo --story migrate`: a simulated cluster leaves ZooKeeper, with one way back and one refusal."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kafkafeatures.cli.demo import migrate
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kafkasim.migration.cluster import MigratingCluster
from tests.amounts import only_in_soak
from tests.kafkasim.test_process import ENVIRONMENT

KEY_LINES = (
    "SIMULATED",
    "start the controllers of the quorum",
    "MigrationPhaseChanged: None -> PreMigration",
    "restart broker 2 as a broker in ZooKeeper mode that migrates: set",
    "the quorum is the controller",
    "desired: RolledBack",
    "needed: stop the controllers",
    "ZnodesDeleted: delete /controller and /migration",
    "MigrationPhaseChanged: RollingBack -> RolledBack",
    "RolloutCompleted",
    "as a broker in KRaft mode: set process.roles=broker",
    "MigrationPhaseChanged: Migrating -> DualWrite",
    "consents: [zk-finalize]",
    "approve plan sha256:",
    "PlanApproved:",
    "MetadataDiffers: ZooKeeper and the metadata log differ: 1 topic",
    "restart the active controller",
    "Refused: the way back would lose a topic.",
    "controller 3001 was restarted",
    "as a controller without ZooKeeper",
    "MigrationPhaseChanged: Finalizing -> Finalized",
    "the migration is at Finalized",
    "Done after",
)


def test_the_migration_demo_shows_all_phases_a_rollback_and_a_refusal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kafkafeatures", "demo", "--story", "migrate"], env=ENVIRONMENT | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    read, at = " ".join(done.stdout.replace("#", " ").split()), 0
    for line in KEY_LINES:
        assert line in read[at:], f"{line!r} is not after {read[max(at - 200, 0) : at]!r}"
        at = read.index(line, at) + len(line)
    # Three brokers get the flag, lose it in the rollback, get it again, and leave ZooKeeper; so do three controllers.
    assert len(re.findall("NodeRestarted: ", read)) == 3 + 3 + 3 + 3 + 3


@only_in_soak
def test_the_migration_demo_fails_if_a_step_does_not_go_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write is lost, so nothing is refused."""
    monkeypatch.setattr(MigratingCluster, "loses_a_write", lambda _: False)
    with pytest.raises(CommandFailed, match="did not work as expected"):
        migrate.tell_the_migration()
