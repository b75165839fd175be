"""Spark standalone: a master and two workers of one core each, on this machine, as processes of their own; also as if
each worker were a machine with a disk of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.e2e.rig.process import free_port, wait_until

CLASSES = "org.apache.spark.deploy"
_OWN_DISK = 'for folder in $0; do mount -t tmpfs own "$folder" || exit; done; exec "$@"'
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def cluster(folder: Path, workers: int = 2, hidden: Sequence[Path] = ()) -> Iterator[str]:
    """The address of its master. hidden: folders in whose place each worker has an empty one of its own; needs root."""
    own_disk = ["unshare", "--mount", "--", "sh", "-c", _OWN_DISK, " ".join(map(str, hidden))] if hidden else []
    port, page = free_port(), free_port()
    with ExitStack() as stack:
        _start(stack, folder, "master", f"{CLASSES}.master.Master", "--host", "127.0.0.1", "--port", str(port),
               "--webui-port", str(page))  # fmt: skip
        address = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            _start(
                stack, folder, f"worker-{number}", f"{CLASSES}.worker.Worker", "--host", "127.0.0.1", "--cores", "1",
                "--memory", "700m", "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"), address,
                before=own_disk,
            )  # fmt: skip
        wait_until("the workers are there", lambda: _alive(f"http://127.0.0.1:{page}/json/") == workers)
        yield address


def _start(stack: ExitStack, folder: Path, name: str, *command: str, before: Sequence[str] = ()) -> None:
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    with open(folder / f"{name}.out", "wb") as output:
        process = subprocess.Popen(
            [*before, home / "bin" / "spark-class", *command], stdout=output, stderr=output, env=environment, cwd=folder
        )
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _alive(page: str) -> int:
    try:
        with _OPENER.open(page, timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return 0
