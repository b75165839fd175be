"""Log4j 2 for nodes of Kafka 4.x, with which Kafka ships it: without it a broker has no level that can be changed.

The rig runs all nodes on reload4j. These jars come before those of the class path, so that SLF4J binds to them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.clients.old_clients import HOME
from tests.e2e.rig.releases import MissingTool, release

SLF4J_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:{}"

_CONFIGURATION = """<Configuration status="WARN"><Appenders><Console name="out" target="SYSTEM_OUT">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders><Loggers>
<Root level="INFO"><AppenderRef ref="out"/></Root>
<Logger name="kafka.request.logger" level="WARN"/></Loggers></Configuration>
"""


def log4j2_flags(version: str, folder: Path) -> list[str]:
    """Flags of a JVM for a node of this release; `folder`: for its configuration."""
    libraries = release(version).home / "libs"
    (core,) = libraries.glob("log4j-core-*.jar")
    number = core.stem.removeprefix("log4j-core-")
    binding = _binding(number)
    names = (binding, core, libraries / f"log4j-api-{number}.jar", *libraries.glob("slf4j-api-*.jar"))
    configuration = folder / "log4j2.xml"
    configuration.write_text(_CONFIGURATION)
    return [f"-Xbootclasspath/a:{':'.join(map(str, names))}", f"-Dlog4j2.configurationFile={configuration}"]


def _binding(number: str) -> Path:
    """The jar between SLF4J and Log4j, which the jars of Kafka do not bring along."""
    jar = HOME / "log4j2" / f"log4j-slf4j-impl-{number}.jar"
    if not jar.exists():
        words = ("dependency:copy", f"-Dartifact={SLF4J_BINDING.format(number)}", f"-DoutputDirectory={jar.parent}")
        done = subprocess.run(("mvn", "-q", "-B", *words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingTool(f"Maven could not fetch {jar.name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return jar
