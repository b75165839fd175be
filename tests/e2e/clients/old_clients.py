"""Real clients of Kafka, from 0.9 to 2.3 and of six makers, fetched from their registries into the cache of the rig.

Each produces one record and consumes it, as a process of its own: `python -m tests.e2e.clients.old_clients` fetches all
of them beforehand. librdkafka comes out of wheels for Python 3.6, for which there are no newer ones.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.rig.process import ENVIRONMENT
from tests.e2e.rig.releases import CACHE, MissingTool

PROGRAMS = Path(__file__).parent / "programs"
HOME = CACHE.parent / "old-clients"
SECONDS = 20
"""Time that a client has for each of its two halves."""


@dataclass(frozen=True)
class OldClient:
    """A client as a command, to which the address, the topic, its id and `SECONDS` are added."""

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def start(self, bootstrap: str, topic: str) -> subprocess.Popen[str]:
        """Start the process; what it prints last says how far it came."""
        environment = {**ENVIRONMENT, "PATH": os.environ["PATH"], **dict(self.environment)}
        words = (*self.command, bootstrap, topic, self.name, str(SECONDS))
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def java(version: str) -> OldClient:
    """kafka-clients of a release."""
    home = HOME / f"java-{version}"
    pom = HOME / f"java-{version}.xml"
    dependency = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
    wanted = (("org.apache.kafka", "kafka-clients", version), ("org.slf4j", "slf4j-nop", "1.7.36"))

    def fetch() -> None:
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>rig</groupId>'
            "<artifactId>old</artifactId><version>1</version><dependencies>"
            + "".join(dependency.format(*each) for each in wanted)
            + "</dependencies></project>"
        )
        _run("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={home}")

    fetched_once(home, fetch)
    command = ("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/*", str(PROGRAMS / "OldClient.java"))
    return OldClient(f"java-{version}", command)


def python(package: str, version: str, program: str, *others: str) -> OldClient:
    """A client in Python."""
    home = HOME / f"{package}-{version}"
    words = (f"{package}=={version}", *others)
    fetched_once(home, lambda: _pip("install", "--no-deps", "--target", str(home), *words))
    return OldClient(f"{package}-{version}", (sys.executable, str(PROGRAMS / program)), (("PYTHONPATH", str(home)),))


def librdkafka(version: str) -> OldClient:
    """The library that the wheel of confluent-kafka of this version has."""
    home = HOME / f"librdkafka-{version}"
    platforms = ("--platform", "manylinux1_x86_64", "--platform", "manylinux2010_x86_64")
    abi = ("--python-version", "36", "--implementation", "cp", "--abi", "cp36m", "--only-binary", ":all:")

    def fetch() -> None:
        _pip("download", "--no-deps", *platforms, *abi, "-d", str(home), f"confluent-kafka=={version}")
        (wheel,) = home.glob("*.whl")
        shutil.unpack_archive(wheel, home, "zip")

    fetched_once(home, fetch)
    (library,) = home.rglob("librdkafka*.so.1")
    program = str(PROGRAMS / "with_librdkafka.py")
    return OldClient(
        f"librdkafka-{version}", (sys.executable, program, str(library)), (("LD_LIBRARY_PATH", str(library.parent)),)
    )


def go(name: str, library: str) -> OldClient:
    """A client in Go: sarama (with a configured version, if `library` is one), or kafka-go."""
    home = HOME / "go"
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOBIN": str(home)}
    fetched_once(home, lambda: _run("go", "install", ".", folder=PROGRAMS / "go", environment=environment))
    return OldClient(name, (str(home / "oldclients"), library))


def kafkajs(version: str) -> OldClient:
    """KafkaJS."""
    home = HOME / f"kafkajs-{version}"
    fetched_once(
        home, lambda: _run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), f"kafkajs@{version}")
    )
    command = ("node", str(PROGRAMS / "with_kafkajs.js"))
    return OldClient(f"kafkajs-{version}", command, (("NODE_PATH", str(home / "node_modules")),))


CLIENTS: Mapping[str, Callable[[], OldClient]] = {
    **{f"java-{version}": partial(java, version) for version in ("0.9.0.1", "0.10.2.2", "1.0.2", "2.0.1", "2.3.1")},
    **{f"librdkafka-{version}": partial(librdkafka, version) for version in ("0.11.6", "1.0.0", "1.8.2")},
    **{
        f"kafka-python-{version}": partial(python, "kafka-python", version, "with_kafka_python.py")
        for version in ("1.4.7", "2.0.2")
    },
    "aiokafka-0.8.1": partial(
        python, "aiokafka", "0.8.1", "with_aiokafka.py",
        "kafka-python==2.0.2", "async-timeout==4.0.3", "packaging==23.2",
    ),
    "sarama-1.19.0": partial(go, "sarama-1.19.0", "sarama"),
    "sarama-1.19.0-as-1.0.0": partial(go, "sarama-1.19.0-as-1.0.0", "1.0.0"),
    "kafka-go-0.3.0": partial(go, "kafka-go-0.3.0", "kafka-go"),
    "kafkajs-1.15.0": partial(kafkajs, "1.15.0"),
}  # fmt: skip
"""By their client ids, which are the names under which a request log has them."""


def fetched_once(home: Path, fetch: Callable[[], None]) -> None:
    """Fetch what is not in the cache. Two processes may ask at once; what is not complete is fetched anew."""
    complete = home / "complete"
    if complete.exists():
        return
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            fetch()
            complete.touch()


def _pip(*words: str) -> None:
    _run(sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check")


def _run(*words: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    if shutil.which(words[0]) is None:
        raise MissingTool(f"{words[0]} is not there; the tests with real clients need a JDK, Maven, Go and npm")
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingTool(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    try:
        for make in CLIENTS.values():
            print(make().name, flush=True)
    except MissingTool as error:
        sys.exit(str(error))
