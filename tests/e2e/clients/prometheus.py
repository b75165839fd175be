"""A real Prometheus, with a history that was never scraped or with real targets, out of Debian's package.

    with running(tmp_path, blocks=history) as url: ...

The package is unpacked into the cache of the rig, and nothing of the machine is changed.
"""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.e2e.clients.old_clients import HOME, fetched_once
from tests.e2e.rig.process import Daemon, free_port
from tests.e2e.rig.releases import MissingTool

Labels = Mapping[str, str]
AGENT = "1.0.1"
RULES = """lowercaseOutputName: true
includeObjectNames:
- "java.lang:type=Runtime"
- "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
- "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,*"
rules:
- pattern: kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+), (.+)=(.+)><>Count
  name: kafka_$1_$2_$3_total
  type: COUNTER
  labels: {"$4": "$5", "$6": "$7"}
- pattern: kafka.(\\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value
  name: kafka_$1_$2_$3
  labels: {"$4": "$5"}
- pattern: java.lang<type=Runtime><>StartTime
  name: java_lang_runtime_starttime
"""
"""Strimzi's rules for what the check reads."""
_BLOCK = "486h"
"""Longest block of a history: promtool reads its input once for each."""


def program(name: str) -> Path:
    """`prometheus` or `promtool`."""
    home = HOME / "prometheus"

    def fetch() -> None:
        _run("apt-get", "download", "prometheus", folder=home)
        (package,) = home.glob("*.deb")
        _run("dpkg", "-x", str(package), str(home))
        package.unlink()

    fetched_once(home, fetch)
    return home / "usr" / "bin" / name


def exporter(folder: Path, port: int) -> str:
    """The flag of a JVM that answers scrapes at this port, by the JMX exporter. `folder`: for its rules."""
    home = HOME / f"jmx-exporter-{AGENT}"
    artifact = f"io.prometheus.jmx:jmx_prometheus_javaagent:{AGENT}"
    fetched_once(
        home, lambda: _run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={home}")
    )
    (jar,) = home.glob("*.jar")
    (folder / "rules.yml").write_text(RULES)
    return f"-javaagent:{jar}={port}:{folder / 'rules.yml'}"


def scrape(port: int, host: str = "127.0.0.1") -> bytes:
    """The answer of the exporter at this port."""
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        return bytes(answer.read())


def backfill(folder: Path, lines: Iterable[str]) -> None:
    """Write a history: lines of OpenMetrics with times in seconds."""
    source = folder.with_suffix(".txt")
    with source.open("w") as stream:
        stream.writelines(lines)
        stream.write("# EOF\n")
    words = (
        "tsdb",
        "create-blocks-from",
        "--quiet",
        "openmetrics",
        "--max-block-duration",
        _BLOCK,
        str(source),
        str(folder),
    )
    _run(str(program("promtool")), *words)
    source.unlink()


def line(name: str, labels: Labels, value: float, milliseconds: int) -> str:
    """One sample."""
    text = ",".join(f'{label}="{each}"' for label, each in labels.items())
    return f"{name}{{{text}}} {value!r} {milliseconds / 1000:.3f}\n"


@contextmanager
def running(folder: Path, jobs: Sequence[object] = (), interval: str = "1s") -> Iterator[str]:
    """The URL of a server. `folder`: has its history, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder.with_suffix(".yml")
    config.write_text(
        yaml.safe_dump(
            {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": list(jobs)}
        )
    )
    url = f"http://127.0.0.1:{free_port()}"
    words = [f"--config.file={config}", f"--storage.tsdb.path={folder}", "--storage.tsdb.retention.time=400d"]
    words += [f"--web.listen-address={url.removeprefix('http://')}"]
    server = Daemon([program("prometheus"), *words], folder.with_suffix(".log"), lambda: _is_ready(url))
    server.start()
    try:
        yield url
    finally:
        server.kill()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _run(*words: str, folder: Path | None = None) -> None:
    if shutil.which(words[0]) is None:
        raise MissingTool(f"{words[0]} is not there; the tests with a real Prometheus need Debian's apt-get and Maven")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingTool(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
