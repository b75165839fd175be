"""What programs find that tests start: the sources, and of the libraries no more than a user has."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONPATH = f"{ROOT / 'tests' / 'absent'}:{ROOT / 'operator'}"
