"""Command lines for tests. A line with a single command runs in a process forked from this one, which has imported
everything before: to start Python for each took most of the time of these tests. A line with pipes, redirections or
closed outputs runs in bash.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NoReturn

from kafkafeatures.cli.shell.main import main
from kafkafeatures.kafka.base import threads
from kafkafeatures.kafka.wire.codec import entity, every_api
from tests.started import PYTHONPATH

_LOADED = """
cli.document.apply cli.describe cli.kube.api cli.cluster.matrix cli.document.plan cli.document.plan_text
cli.cluster.unregister kafka.cluster kafka.requests.unregister reconcile.act reconcile.file_store
""".split()
for _name in _LOADED:  # `main` imports them where it needs them: here once, and not in each process again
    import_module(f"kafkafeatures.{_name}")
for _key, _api in every_api().items():
    for _kind in ("Request", "Response"):
        entity(_key, _api.versions.max, _kind)

ENVIRONMENT: Mapping[str, str] = {
    **{name: value for name, value in os.environ.items() if not name.startswith("KAFKAFEATURES_")},
    "XDG_CONFIG_HOME": "/nonexistent",  # no profiles of the person who runs the tests
    "PYTHONPATH": PYTHONPATH,
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # where `kafkafeatures` is
}
PROGRAMS = ("kafkafeatures ", f"{sys.executable} -m kafkafeatures ")
MOST_SECONDS = 60


def shell(line: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end; returns the exit code and all that was printed. Standard input is empty."""
    program = next((one for one in PROGRAMS if line.startswith(one)), None)
    if program is None or set(line) & set("|&;<>$`*?~#"):
        return in_bash(line, folder)
    return command(shlex.split(line.removeprefix(program)), folder)


def in_bash(line: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], env=ENVIRONMENT, cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=MOST_SECONDS, check=False,
    )  # fmt: skip


def command(words: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    with TemporaryFile() as out, TemporaryFile() as error:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become(words, folder or Path.cwd(), out, error)
        _, status = os.waitpid(child, 0)
        said = []
        for file in (out, error):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess([*words], os.waitstatus_to_exitcode(status), *said)


def _become(words: Sequence[str], folder: Path, out: IO[bytes], error: IO[bytes]) -> NoReturn:
    """Run the command in this process, which ends with it."""
    code = 70
    try:
        signal.alarm(MOST_SECONDS)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in enumerate((out, error), start=1):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        threads._THREADS = ThreadPoolExecutor(2)  # those of this process's own tests do not live on here
        code = main(words)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
