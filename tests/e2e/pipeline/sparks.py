"""Interpreters with Spark: this one, those with older versions, and one for workers that has just what they need.

Older versions are fetched from PyPI once, into the cache beside Kafka's releases.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.amounts import SOAK
from tests.e2e.rig.releases import CACHE as KAFKA

ROOT = Path(__file__).resolve().parents[3]
CACHE = KAFKA.parent / "spark"
OLDER = ("4.0.5", "4.1.4") if SOAK else ()
SITE = Path(sys.prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
_BESIDE = ("pyarrow", "numpy", "google-crc32c", "pyyaml", "setuptools", "msgspec", "deltalake")
"""What is installed beside PySpark: what kraftlog, the data source and the views need, and no pandas."""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """A session takes a gigabyte, and on two cores two of them take longer than one after the other."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def python(version: str) -> str:
    """An interpreter with this version of PySpark; "" is the one of this environment."""
    if not version:
        return sys.executable
    folder = CACHE / version
    made, has = folder / "bin" / "python", folder / "has"
    wanted = " ".join((f"pyspark=={version}", *_BESIDE))
    if not has.exists() or has.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([made, "-m", "pip", "install", "-q", *wanted.split()], check=True)
        has.write_text(wanted)
    return str(made)


def worker_python(folder: Path, *beside: str) -> str:
    """An interpreter that has kraftlog (of its wheel), numpy, pyarrow, google-crc32c and `beside`, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-index"]
    source = ["--no-build-isolation", "--wheel-dir", str(folder), str(ROOT / "operator/kraftlog")]
    subprocess.run([*build, *source], check=True)
    site = folder / "venv" / SITE.relative_to(sys.prefix)
    (wheel,) = folder.glob("kraftlog-*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)
    for name in ("numpy", "numpy.libs", "pyarrow", "google_crc32c", "google_crc32c.libs", *beside):
        if (SITE / name).exists():
            (site / name).symlink_to(SITE / name)
    made = str(folder / "venv" / "bin" / "python")
    names = ("featurelog", "kafkafeatures", "kafkasim", "yaml", "pyspark")
    code = f"import kraftlog.arrow, importlib.util as u; print([one for one in {names} if u.find_spec(one)])"
    assert subprocess.run([made, "-I", "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    return made


def script(
    module: str, *arguments: str, interpreter: str = sys.executable, **more: Any
) -> subprocess.CompletedProcess[str]:
    """A module of these tests as a program of its own. more: `env`, beside this environment; arguments of `run`."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
    environment = {**os.environ, "PYTHONPATH": path, **more.pop("env", {})}
    more = {"cwd": ROOT, **more}
    with one_at_a_time():
        return subprocess.run(
            [interpreter, "-m", module, *arguments],
            env=environment, capture_output=True, text=True, timeout=900, check=False, **more,
        )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> Any:
    """What a script printed as JSON."""
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def arguments(*values: object) -> Sequence[str]:
    """The arguments of a program, each as JSON."""
    return [json.dumps(value, default=str) for value in values]
