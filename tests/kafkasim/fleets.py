"""A small fleet that is generated once for all who read it, and what its histories say."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.history import History, live
from kafkasim.fleet.plan import SMALL, UNTIL_MS, ClusterPlan, Story, draw
from kraftlog import Replay, Section, files

SEED = 1


@cache
def plans() -> tuple[ClusterPlan, ...]:
    return tuple(draw(SMALL, SEED))


@cache
def histories() -> dict[str, History]:
    """The true histories of the generated clusters, by name."""
    return {plan.name: live(plan, SMALL, until_ms=UNTIL_MS) for plan in plans()}


@cache
def written() -> Path:
    """The folder of a fleet that is written once; no test changes it."""
    made = Path(mkdtemp(prefix="fleet-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    folder = made / "fleet"
    write_fleet(folder, SMALL, seed=SEED)
    return folder


def history_with(story: Story) -> History:
    """The cluster with a story of its own."""
    (found,) = (history for history in histories().values() if history.plan.story is story)
    return found


def node_folders(cluster: str) -> list[Path]:
    return sorted((written() / "logs" / cluster).glob("*/__cluster_metadata-0"))


def snapshots(folder: Path) -> list[tuple[files.Snapshot, bytes]]:
    """The oldest first."""
    named = ((files.parse(path.name), path) for path in sorted(folder.glob("*.checkpoint")))
    return [(name, path.read_bytes()) for name, path in named if isinstance(name, files.Snapshot)]


def segments(folder: Path) -> bytes:
    """The whole log, one segment after the other."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def replayed(folder: Path, *, below: int = 2**62) -> Replay:
    """The oldest snapshot, and what the log says behind it."""
    name, data = snapshots(folder)[0]
    replay = Replay(sections=frozenset(Section))
    replay.load_snapshot(data, end_offset=name.end_offset, epoch=name.epoch)
    replay.append(segments(folder), below=below)
    return replay
