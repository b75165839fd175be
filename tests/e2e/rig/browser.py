"""A page in a real browser: its document as the browser made it, and what its console says."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig.kubernetes.binaries import install_packages

PACKAGES = {"chromium": "chromium"}
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
)  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """`document`: as HTML. `console`: a line for each message."""

    document: str
    console: tuple[str, ...]


def opened(page: Path, profile: Path) -> Opened:
    """Open a file with Chromium, in a new and empty profile."""
    install_packages(PACKAGES)
    done = subprocess.run(
        ["chromium", *QUIET, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return Opened(done.stdout, tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line))
