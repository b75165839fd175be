"""Kafka releases from Maven Central, cached outside the tree: jars, and an archive of loaded classes for fast starts.

`python -m tests.e2e.rig.releases` fetches all of them beforehand. The cache is
`$XDG_CACHE_HOME/kafka-features-operator/kafka/<version>` (or below `~/.cache`); a release is complete or not there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BEFORE = "3.8.1"  # has to be upgraded before it can migrate from ZooKeeper
OLD = "3.9.2"  # the last with ZooKeeper mode; UpdateFeatures v1, partial success
MIDDLE = "4.1.2"  # the first in which kraft.version can be raised
RECENT = "4.3.1"  # the newest whose own tools are published
NEWEST = "4.4.0"  # the first that can unregister a controller (KIP-1312)

TOOLS = {NEWEST: RECENT}
"""Whose kafka-tools go with a release, where its own are not on Maven Central."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-features-operator" / "kafka"

# C1 only and a small heap: a node is ready twice as fast, and six of them fit two cores.
JVM = ["-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rig</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_WITHOUT_TOOLS = (
    "<exclusions><exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion>"
    "</exclusions>"
)

_LOG4J = """log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target={target}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class MissingTool(Exception):
    """A program that the rig needs is not there; says how to get it."""


@dataclass(frozen=True)
class Release:
    """One release on this machine."""

    version: str
    home: Path

    @property
    def class_path(self) -> str:
        # Sorted: a class archive is bound to the exact class path.
        return ":".join(str(jar) for jar in sorted((self.home / "libs").glob("*.jar")))

    @property
    def tool_class_path(self) -> str:
        """Tools of an older release on the classes of this one: what was moved away since, they find at the end."""
        tools = TOOLS.get(self.version)
        moved = [str(release(tools).home / "libs" / f"kafka-clients-{tools}.jar")] if tools else []
        return ":".join([self.class_path, *moved])

    def java(self, main: str, *arguments: str, log4j: str = "node") -> list[str]:
        """The command line of a main class. `log4j`: "node" logs to stdout, "tool" warnings to stderr."""
        archive = self.home / "classes.jsa"
        return [
            "java",
            *JVM,
            *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
            f"-Dlog4j.configuration=file:{self.home}/{log4j}.properties",
            "-cp",
            self.tool_class_path if log4j == "tool" else self.class_path,
            main,
            *arguments,
        ]

    def stock_tool(self, main: str, *arguments: str) -> list[str]:
        """The command line as Kafka's own scripts make it (`kafka-run-class.sh`): what people run today."""
        return [
            "java",
            *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
            *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
            *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
            f"-Dlog4j.configuration=file:{self.home}/tool.properties",
            *("-cp", self.tool_class_path, main, *arguments),
        ]


def release(version: str) -> Release:
    """The release, fetched now if it is not in the cache. Two processes may ask at once."""
    home = CACHE / version
    if not (home / "complete").exists():
        for program, package in (("java", "a JDK or JRE, 17 or newer"), ("mvn", "Maven 3.8 or newer")):
            if shutil.which(program) is None:
                raise MissingTool(f"{program} is not there; the tests on real Kafka need {package}")
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{version}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (home / "complete").exists():
                _fetch(version, home)
    return Release(version, home)


def _fetch(version: str, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    tools = TOOLS.get(version, version)
    wanted = (
        ("org.apache.kafka", "kafka_2.13", version, _WITHOUT_TOOLS),  # the first: its versions of what both need win
        ("org.apache.kafka", "kafka-tools", tools, ""),
        ("org.slf4j", "slf4j-reload4j", "1.7.36", ""),  # the two bring no logging backend along
    )
    (home / "pom.xml").write_text(_POM.format("".join(_DEPENDENCY.format(*one) for one in wanted)))
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", home / "pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime",
         f"-DoutputDirectory={home / 'libs'}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise MissingTool(f"Maven could not fetch Kafka {version}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (home / "node.properties").write_text(_LOG4J.format(level="INFO", target="System.out"))
    (home / "tool.properties").write_text(_LOG4J.format(level="WARN", target="System.err"))
    _archive(Release(version, home))
    (home / "complete").touch()


def _archive(it: Release) -> None:
    """Run one combined node once and let it dump its classes: the later starts take about half the time."""
    from tests.e2e.rig.process import free_port, wait_until

    with tempfile.TemporaryDirectory(prefix="rig-archive-") as folder:
        ports = free_port(), free_port()
        properties = Path(folder) / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{ports[0]}\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=CONTROLLER://127.0.0.1:{ports[0]},PLAINTEXT://127.0.0.1:{ports[1]}\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={folder}/data\noffsets.topic.replication.factor=1\n"
        )
        subprocess.run(
            it.java("kafka.tools.StorageTool", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(properties)),
            check=True, capture_output=True,
        )  # fmt: skip
        command = it.java("kafka.Kafka", str(properties))
        command.insert(1, f"-XX:ArchiveClassesAtExit={it.home}/classes.jsa")
        log = Path(folder) / "log"
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as node:
            try:
                wait_until(
                    "the node runs", lambda: "Kafka Server started" in log.read_text() or node.poll() is not None
                )
            finally:
                node.terminate()


if __name__ == "__main__":
    try:
        for one in (OLD, MIDDLE, RECENT, NEWEST):
            print(release(one).home, flush=True)
    except MissingTool as error:
        sys.exit(str(error))
