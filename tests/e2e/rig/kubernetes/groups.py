"""Control groups: who of a busy machine's programs gets how much of its processors.

All pods of a node together would weigh as much as any one process, and so would the test process with all that it
starts, the API server and containerd among them: a start that takes 50 s of processor time would take minutes beside
ten other programs. Each of the two weighs as ten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.rig.kubernetes.node_files import GROUP
from tests.e2e.rig.process import wait_until

_ONLY_V2 = Path("/sys/fs/cgroup/cgroup.controllers")  # is there where no hierarchy of version 1 is
_WEIGHTS = {"cpu.shares": "10240", "cpu.weight": "1000"}  # of version 1; of version 2


def make_groups() -> None:
    """Makes the control groups of all pods. Where there is only version 2, kubelet wants to find all controllers in its
    group.
    """
    for group in _groups():
        group.mkdir(exist_ok=True)
        _weigh(group)
    if _ONLY_V2.exists():
        for controller in _ONLY_V2.read_text().split():
            _ONLY_V2.with_name("cgroup.subtree_control").write_text(f"+{controller}")


def remove_groups() -> None:
    """A killed process leaves its group a moment later."""
    wait_until("the control groups are empty", lambda: all(_removed(group) for group in _groups()), 30)


@contextmanager
def outside_of_pods() -> Iterator[None]:
    """This process, and all that it starts from here on. Inside of `network`, so that there is one on a machine."""
    path = _ONLY_V2.parent if _ONLY_V2.exists() else _ONLY_V2.with_name("cpu")
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    before = next(where for _, names, where in lines if "cpu" in names.split(",") or (_ONLY_V2.exists() and not names))
    group = path / f"{GROUP}-tests"
    group.mkdir(exist_ok=True)  # a killed run leaves it empty
    _weigh(group)
    try:
        _move_to(group)
        yield
    finally:
        _move_to(path / before.lstrip("/"))
        wait_until("nothing runs any more", lambda: _removed(group), 30)


def _move_to(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


def _weigh(group: Path) -> None:
    for weight, value in _WEIGHTS.items():
        if (group / weight).exists():
            (group / weight).write_text(value)


def _groups() -> list[Path]:
    """The groups of all pods, in each hierarchy: there is one of version 2, and of version 1 one for each
    controller.
    """
    if _ONLY_V2.exists():
        return [_ONLY_V2.with_name(GROUP)]
    return [one / GROUP for one in _ONLY_V2.parent.iterdir() if one.is_dir() and not one.is_symlink()]


def _removed(group: Path) -> bool:
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True
