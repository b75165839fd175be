"""Container images without a Docker engine or a registry: Debian packages, our files and Kafka's jars, put together.

Every function returns an archive for `Node.load_image`. Images and what they are made of are cached outside the tree;
the bases and Kafka's images are made once, those of our Dockerfiles once for each state of their sources. In pods an
image is named `localhost/rig/...`: no registry is meant. For kind Docker builds them, on bases from its registry.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kafkafeatures import __version__
from tests.e2e.rig.kubernetes.binaries import CACHE, Failed, binary, build, install_packages, locked, run
from tests.e2e.rig.kubernetes.kind import KIND
from tests.e2e.rig.process import free_port
from tests.e2e.rig.releases import JVM, release

PREFIX = "localhost/rig"
ROOT = Path(__file__).parents[4]
PAUSE = f"{PREFIX}/pause:1"
PYTHON, JAVA = f"{PREFIX}/python:3.11", f"{PREFIX}/java:17"
if KIND:
    PYTHON, JAVA = "python:3.11-slim", "eclipse-temurin:17-jre"
PIP, JAVA_HOME = f"{PREFIX}/pip:1", f"{PREFIX}/java-home:17"
OPERATOR = f"{PREFIX}/kafka-features-operator:{__version__}"
PIPELINE = f"{PREFIX}/kafka-features-pipeline:{__version__}"
SUITE = "bookworm"  # of Debian; the one with Python 3.11 and Java 17

_BASES = {PYTHON: "python3,python3-venv,ca-certificates", JAVA: "openjdk-17-jre-headless"}
_NOT_NEEDED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache/apt",
    "var/lib/apt/lists",
    "dev",
    "proc",
)

_SOURCES = (".dockerignore", "pyproject.toml", "README.md", "LICENSE", "operator", "requirements")
_KEPT = {OPERATOR: 4, PIPELINE: 1}
"""Images of ours, the last ones that were used."""

_PAUSE = """FROM scratch
COPY pause /pause
ENTRYPOINT ["/pause"]
"""
# Debian's has links that lead out of its folder, one of them to what is not needed.
_JAVA_HOME = f"""FROM {JAVA}
RUN home=$(dirname "$(dirname "$(readlink -f /usr/bin/java)")") && rm -f "$home/docs" && \\
    mkdir /opt/java && cp -rL "$home" /opt/java/openjdk
"""
_SCRIPTS = {"kafka-server-start.sh": "kafka.Kafka", "kafka-storage.sh": "kafka.tools.StorageTool"}
"""Kafka's own, which its jars do not have: each runs a main class with the same words."""
USER = 1000
"""The user of Apache's image."""
# The class archive is bound to this Java and this class path, so it is made in the image itself.
_KAFKA = f"""FROM {JAVA}
COPY kafka /opt/kafka
ARG PORTS
RUN bash /opt/kafka/archive.sh $PORTS
"""
_JAVA = f"""LC_ALL=C
class_path=$(printf ':%s' /opt/kafka/libs/*.jar)
archive=/opt/kafka/classes.jsa
[ -e $archive ] && archived=-XX:SharedArchiveFile=$archive || archived=-XX:ArchiveClassesAtExit=$archive
exec java {" ".join(JVM)} $archived -Dlog4j.configuration=file:/opt/kafka/node.properties -cp "${{class_path#:}}" "$@"
"""
_ARCHIVE = """set -eu
cd /tmp
cat >one.properties <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$1
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:$1,PLAINTEXT://127.0.0.1:$2
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/tmp/data
offsets.topic.replication.factor=1
END
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t 5L6g3nShT-eMCtK--X86sw -c one.properties
bash /opt/kafka/java.sh kafka.Kafka one.properties >log 2>&1 &
for _ in $(seq 600); do grep -q 'Kafka Server started' log && break; sleep 0.1; done
kill $!
wait $! || true
ls -l /opt/kafka/classes.jsa
rm -r /tmp/*
"""


def kafka_name(version: str) -> str:
    return f"{PREFIX}/kafka:{version}"


def scripts_name(version: str) -> str:
    return f"{PREFIX}/kafka-scripts:{version}"


def pause_image() -> Path:
    return _once(PAUSE, _pause_context)


def kafka_image(version: str) -> Path:
    """An image with the jars that tests on plain processes use. `bash /opt/kafka/java.sh MAIN ...` runs any of its
    programs.
    """
    return _once(kafka_name(version), lambda folder: _kafka_context(folder, version))


def scripts_image(version: str) -> Path:
    """Kafka where people's images have it: scripts in /opt/kafka/bin, started as a user that is not root."""
    return _once(scripts_name(version), lambda folder: _scripts_context(folder, version))


def base_image(name: str = PYTHON) -> Path:
    """PYTHON or JAVA: minimal Debian with the interpreter. For the FROM line of an image that is built here."""
    archive = _archive_of(name)
    if KIND:
        return archive  # Docker finds it by its name
    with locked("images"):
        if archive.exists() and _id(name):
            return archive
        install_packages()
        with tempfile.TemporaryDirectory(prefix="rig-image-", dir=CACHE) as folder:
            tree = Path(folder, "tree")
            run("debootstrap", "--variant=minbase", f"--include={_BASES[name]}", SUITE, tree)
            for path in _NOT_NEEDED:
                shutil.rmtree(tree / path, ignore_errors=True)
            for path in ("dev", "proc", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
                (tree / path).mkdir(parents=True, exist_ok=True)
            Path(folder, "Dockerfile").write_text("FROM scratch\nCOPY tree /\nENV LANG=C.UTF-8\n")
            return _build(name, Path(folder), {})


def build_image(
    name: str,
    context: Path,
    arguments: Mapping[str, str] | None = None,
    archive: Path | None = None,
    dockerfile: str = "Dockerfile",
) -> Path:
    """What the Dockerfile in the folder says, FROM images that were built here. `name`: `localhost/rig/NAME:TAG`."""
    if not KIND:
        install_packages()
    with locked("images"):
        return _build(name, context, arguments or {}, archive, dockerfile)


def operator_image() -> Path:
    """The image of the Dockerfile that users build, from the sources as they are now."""
    return _of_sources(OPERATOR, "Dockerfile", {})


def pipeline_image() -> Path:
    """The pipeline's image, with Spark and Java, from the sources as they are now."""
    return _of_sources(PIPELINE, "Dockerfile.pipeline", {"JAVA_BASE": JAVA_HOME})


def _of_sources(name: str, dockerfile: str, bases: Mapping[str, str]) -> Path:
    """`bases`: beside Python's, those that this machine has in place of the registry's."""
    if KIND:
        return build_image(name, ROOT, dockerfile=dockerfile)
    with tempfile.TemporaryDirectory(prefix="rig-pip-") as folder:
        pip = Path(folder)
        pip_context(pip)
        archive = _archive_of(f"{name}-{_digest(pip, *(ROOT / one for one in (dockerfile, *_SOURCES)))}")
        if not archive.exists():
            base_image(PYTHON)
            build_image(PIP, pip)
            if JAVA_HOME in bases.values():
                _once(JAVA_HOME, _java_context)
            build_image(name, ROOT, {"BUILD_BASE": PIP, "RUNTIME_BASE": PYTHON, **bases}, archive, dockerfile)
    with locked("images"):
        archive.touch()
        archives = archive.parent.glob(f"{_archive_of(name).stem}*.tar")
        for old in sorted(archives, key=lambda one: one.stat().st_mtime)[: -_KEPT[name]]:
            old.unlink()
    return archive


def _digest(*sources: Path) -> str:
    """A digest of the names and contents of all files."""
    found = hashlib.sha256()
    for source in sources:
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(source)} {path.stat().st_size}\n".encode())
                found.update(path.read_bytes())
    return found.hexdigest()[:12]


def pip_context(folder: Path) -> None:
    """pip asks in an image where it asks on this machine: the same index, the same certificates."""
    told = {}
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        told[name.rpartition(".")[2]] = value.strip("'")
    settings = [f"{name} = {told[name]}" for name in ("index-url", "extra-index-url") if name in told]
    (folder / "ca.pem").write_text(Path(told["cert"]).read_text() if "cert" in told else "")
    settings += ["cert = /etc/pip-ca.pem"] if "cert" in told else []
    (folder / "pip.conf").write_text("\n".join(["[global]", *settings, ""]))
    (folder / "Dockerfile").write_text(f"FROM {PYTHON}\nCOPY pip.conf /etc/pip.conf\nCOPY ca.pem /etc/pip-ca.pem\n")


def _once(name: str, fill: Callable[[Path], dict[str, str]]) -> Path:
    """Made at the first time. `fill` writes the context, and says what to build it with."""
    archive = _archive_of(name)
    if not archive.exists():
        if not KIND:
            install_packages()
        with tempfile.TemporaryDirectory(prefix="rig-image-") as folder:
            arguments = fill(Path(folder))
            with locked("images"):
                return archive if archive.exists() else _build(name, Path(folder), arguments)
    return archive


def _pause_context(folder: Path) -> dict[str, str]:
    build(["pause"])
    shutil.copy(binary("pause"), folder)
    (folder / "Dockerfile").write_text(_PAUSE)
    return {}


def _java_context(folder: Path) -> dict[str, str]:
    base_image(JAVA)
    (folder / "Dockerfile").write_text(_JAVA_HOME)
    return {}


def _kafka_context(folder: Path, version: str) -> dict[str, str]:
    base_image(JAVA)
    made = release(version)
    shutil.copytree(made.home / "libs", folder / "kafka" / "libs")
    shutil.copy(made.home / "node.properties", folder / "kafka")
    (folder / "kafka" / "java.sh").write_text(_JAVA)
    (folder / "kafka" / "archive.sh").write_text(_ARCHIVE)
    (folder / "Dockerfile").write_text(_KAFKA)
    return {"PORTS": f"{free_port()} {free_port()}"}


def _scripts_context(folder: Path, version: str) -> dict[str, str]:
    archive, name = kafka_image(version), kafka_name(version)
    with locked("images"):
        if not KIND and not _id(name):
            _buildah("pull", f"oci-archive:{archive}")
    for script, main in _SCRIPTS.items():
        path = folder / "bin" / script
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/bash\nexec bash /opt/kafka/java.sh {main} "$@"\n')
        path.chmod(0o755)
    (folder / "Dockerfile").write_text(f"FROM {name}\nCOPY bin /opt/kafka/bin\nUSER {USER}\n")
    return {}


def _archive_of(name: str) -> Path:
    folder = "images-docker" if KIND else "images"
    return CACHE / folder / (name.removeprefix(f"{PREFIX}/").replace("/", "_").replace(":", "_") + ".tar")


def _build(
    name: str,
    context: Path,
    arguments: Mapping[str, str],
    archive: Path | None = None,
    dockerfile: str = "Dockerfile",
) -> Path:
    """Nothing to export if the image is the same as before; the one that lost its name is dropped."""
    archive = archive or _archive_of(name)
    words = [f"--file={context / dockerfile}", *(f"--build-arg={key}={value}" for key, value in arguments.items())]
    if KIND:
        archive.parent.mkdir(parents=True, exist_ok=True)
        part = archive.with_suffix(".part")
        # A Docker before 23 builds without BuildKit unless it is told, and cannot read `FROM --platform`.
        run("docker", "build", *words, f"--tag={name}", context, env={**os.environ, "DOCKER_BUILDKIT": "1"})
        run("docker", "save", name, f"--output={part}")
        part.rename(archive)
        return archive
    before = _id(name)
    _buildah(
        "bud", "--isolation=chroot", "--network=host", "--pull-never", "--layers", *words, f"--tag={name}", context
    )
    if archive.exists() and _id(name) == before:
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    _buildah("push", name, f"oci-archive:{part}:{name}")
    part.rename(archive)
    if before and before != _id(name):
        with suppress(Failed):  # others stand on it
            _buildah("rmi", before)
    return archive


def _id(name: str) -> str:
    """Empty if there is no such image."""
    try:
        return _buildah("inspect", "--type=image", "--format={{.FromImageID}}", name).strip()
    except Failed:
        return ""


def _buildah(*words: str | Path) -> str:
    store = CACHE / "buildah"
    return run("buildah", f"--root={store}/root", f"--runroot={store}/run", "--storage-driver=overlay", *words)
