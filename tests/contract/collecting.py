"""The script of docs/how-to/collect-metadata-logs.md, as a reader saves and runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "collect-metadata-logs.md"


def script(folder: Path) -> Path:
    """A file with it."""
    _, _, rest = PAGE.read_text().partition("```sh\n#!")
    path = folder / "collect.sh"
    path.write_text("#!" + rest.partition("```\n")[0])
    return path


def collect(
    folder: Path, cluster: str, environment: Mapping[str, str], *path: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run in the folder. `path`: where kubectl is found first."""
    found = os.pathsep.join([*(str(one) for one in path), "/usr/bin", "/bin"])
    return subprocess.run(
        ["sh", script(folder), cluster],
        cwd=folder,
        env={"PATH": found, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
