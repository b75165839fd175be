"""What the benchmark says a process took is what that process took."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.weighed import weighed

MIB = 2**20


def test_the_peak_is_that_of_the_process_and_not_of_who_measures_it() -> None:
    ballast = b"x" * (300 * MIB)  # of this process, which measures the others
    small = weighed([sys.executable, "-c", "print('done')"])
    assert small.output == b"done\n"
    assert 0 < small.cpu < 10
    assert small.peak < 100 * MIB < len(ballast)
    large = weighed([sys.executable, "-c", f"b'x' * {200 * MIB}"])
    assert 200 * MIB < large.peak < len(ballast)


def test_a_process_that_fails_has_no_figures() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        weighed([sys.executable, "-c", "raise SystemExit(3)"])
