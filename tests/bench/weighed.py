"""What a process costs: seconds, those of the processor alone, and its peak memory.

A small process starts it. Linux counts the memory of a process towards the peak of the one that it starts (`execve`
keeps the highest resident size of the old image), so a benchmark that had grown to 130 MB saw 130 MB everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

_STARTER = """
import json, os, sys, time
began = time.perf_counter()
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - began
with open(int(sys.argv[1]), "w") as report:
    cpu = usage.ru_utime + usage.ru_stime
    json.dump([os.waitstatus_to_exitcode(status), seconds, cpu, usage.ru_maxrss * 1024], report)
"""


@dataclass(frozen=True)
class Weighed:
    """One run of a program. `peak` in bytes, no smaller than an empty Python without its `site`: that starts it."""

    seconds: float
    cpu: float
    peak: int
    output: bytes


def weighed(command: list[str]) -> Weighed:
    """Run it. Raises CalledProcessError where it does not end with 0. `command` begins with a path."""
    reading, writing = os.pipe()
    with open(reading, encoding="ascii") as report, tempfile.TemporaryFile() as output:
        starter = [sys.executable, "-I", "-S", "-c", _STARTER, str(writing), *command]
        with subprocess.Popen(starter, stdout=output, pass_fds=(writing,)):
            os.close(writing)
            code, seconds, cpu, peak = json.load(report)
        output.seek(0)
        if code:
            raise subprocess.CalledProcessError(code, command)
        return Weighed(seconds, cpu, peak, output.read())
