"""`make check` in a fresh clone, with an empty home: it passes with what it installs itself, and skips nothing.

The clone has committed files only. Packages come from the index of pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.run import COLD

ROOT = Path(__file__).parents[2]
FROM_HERE = ("PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


def test_the_inner_loop_passes_in_a_fresh_clone_with_the_programs_that_it_installs(tmp_path: Path) -> None:
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    environment = {name: value for name, value in os.environ.items() if name.startswith(FROM_HERE)}
    environment |= {"HOME": str(home), "PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["make", "check"], cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(COLD)
    assert " passed, 0 failed, 0 skipped" in done.stdout.splitlines()[-1]
