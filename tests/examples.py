"""The output in README and docs is made by running the commands that stand above it: `make docs` writes it anew.

A block of a page that begins with `<!-- example: SCENE -->` is run line by line, as a shell in a window of 100 columns
would, on a cluster of that scene. Documents are those of the same page, by the name in their first line. What differs
from run to run (ports, ids, ages) is written as the pages always have it; "..." stands for lines that are left out.
Scenes on Kubernetes and in a bucket are what tests/e2e makes of them: where a page is no longer right, the test names a
file that is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL
from tests.kafkasim.test_process import heard, simulator
from tests.simulated.http import served, written_kubeconfig
from tests.simulated.kubernetes import ApiServer
from tests.started import PYTHONPATH

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *sorted(str(one.relative_to(ROOT)) for one in (ROOT / "docs").rglob("*.md")))
MARK = "<!-- example: {} -->"
PICTURE = "docs/describe.svg"
"""README's picture: what `describe -o svg` prints of the scene "blocked"."""
BLOCK = re.compile(r"<!-- example: (?P<scene>[a-z]+) -->\n```\n(?P<text>.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DOCUMENT = re.compile(r"```yaml\n(?P<text># (?P<name>\S+)\n.*?)```\n", re.DOTALL)
CLUSTER_ID, PLAN, REVISION = "IIZIi2ZwSAuI47sS45EM2g", "sha256:8c71e41eb5de", "5dd65759b8"
EARLIER = "7c9b6f4d88"
"""The revision that a step goes away from."""
FIRST_PORT = 19091
"""The first port on the pages: the controllers' in the order of their ids, then the brokers'."""

Words = Mapping[str, str]
"""What is said on this run, and what the page says instead."""


def rewritten(page: str, scene: str, words: Words, **environment: str) -> str:
    """The page with the output of its blocks of this scene as it is now."""
    there = {told: real for real, told in words.items()}
    with tempfile.TemporaryDirectory() as folder:
        for found in DOCUMENT.finditer(page):
            Path(folder, found["name"]).write_text(replaced(found["text"], there))

        def of_block(found: re.Match[str]) -> str:
            if found["scene"] != scene:
                return found[0]
            asked = COMMAND.findall(found["text"])
            ran = _run([replaced(line, there) for line, _ in asked], Path(folder), environment)
            shown = "".join(
                f"$ {line}\n{left_out(before, steady(replaced(now, words)))}"
                for (line, before), now in zip(asked, ran, strict=True)
            )
            return f"{MARK.format(scene)}\n```\n{shown}```\n"

        return BLOCK.sub(of_block, page)


def _run(lines: list[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The output of each line, of one shell. None that timed out or reached no cluster is of any use for a page."""
    mark = "--- the end of a line:"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    here = {"PATH": path, "PYTHONPATH": PYTHONPATH, "COLUMNS": "100", "NO_COLOR": "1"}
    environment = {**os.environ, **here, **environment}
    script = "\n".join(f"{line}\n(code=$?; echo '{mark}' $code; exit $code)" for line in lines)
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    *ran, _ = re.split(rf"{mark} ([0-9]+)\n", done.stdout)
    for line, output, code in zip(lines, ran[::2], ran[1::2], strict=True):
        assert int(code) != Exit.UNREACHABLE, f"{line}: {output}"
    return ran[::2]


def left_out(before: str, now: str) -> str:
    """What is printed now, but for the lines that the page leaves out."""
    shown, printed = before.splitlines(keepends=True), now.splitlines(keepends=True)
    kept: list[str] = []
    for _, start, end, first, last in SequenceMatcher(None, shown, printed, autojunk=False).get_opcodes():
        kept += shown[start:end] if {line.strip() for line in shown[start:end]} == {"..."} else printed[first:last]
    return "".join(kept)


def replaced(text: str, words: Words) -> str:
    """The text with every word replaced at once, whole words only."""
    return re.sub("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in words), lambda found: words[found[0]], text)


def steady(text: str) -> str:
    """Without what differs from run to run: offsets, ages, who leads, whether a node is a moment behind, how long a run
    of the pipeline takes, and where its tables are.
    """
    text = re.sub(r"^Verifying: .* still reports .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"offset [0-9]+, epoch [0-9]+", "offset 43, epoch 1", text)
    text = re.sub(r"(?<=, for )[0-9]+[smh]\b|\b[0-9]+[smh](?= ago)", "0s", text)
    text = re.sub(r" \((not ready|ready|unknown) for [0-9]+[smh]\)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"active controller [0-9]+", "active controller 3001", text)
    text = re.sub(r"(?<=^Plan )sha256:[0-9a-f]{12}", PLAN, text, flags=re.MULTILINE)  # of the cluster, among others
    text = re.sub(r"(?<=revision )([a-z]+)-[0-9a-z]{8,10}\b", rf"\1-{REVISION}", text)
    text = text.replace(f"{REVISION}: restore", f"{EARLIER}: restore")
    text = re.sub(r"(?<=; )[0-9.]+ s(?=, (?:one core|Spark))", "3.6 s", text)
    text = re.sub(r"(?<=tables in )/\S+(?=/tables$)", "/data", text, flags=re.MULTILINE)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def words_of(servers: str) -> Words:
    """The words of one cluster that differ from run to run: its id, and the ports of all its nodes, also of those that
    are gone.
    """
    command = [sys.executable, "-m", "kafkafeatures", "describe", "--bootstrap-server", servers, "-o", "json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    nodes = sorted(found["nodes"], key=lambda node: (node["roles"] != ["Controller"], node["id"]))
    return {found["clusterId"]: CLUSTER_ID} | {str(one["port"]): str(FIRST_PORT + n) for n, one in enumerate(nodes)}


_LEVELS = ("--metadata-version", "25", *(f"--feature={name}" for name in ("group.version=1", "transaction.version=2")))
SIMULATED = {
    "blocked": ("--controllers", "2", "--old-broker", "3=4.1", "--ghost-controller", "3003=4.1"),
    "ready": (),
}


@contextmanager
def simulated(scene: str) -> Iterator[Words]:
    """The simulated cluster of an example: Kafka 4.3, with the levels of 4.0."""
    with simulator("--release", "4.3", "--feature", "kraft.version=1", *_LEVELS, *SIMULATED[scene]) as process:
        yield words_of(str(heard(process)["bootstrapServers"]))


def picture(words: Words) -> str:
    """The picture as it is now."""
    (server,) = (real for real, told in words.items() if told == str(FIRST_PORT + 3))  # of broker 1
    (drawn,) = _run([f"kafkafeatures describe --bootstrap-server 127.0.0.1:{server} -o svg"], ROOT, {})
    return steady(replaced(drawn, words))


def simulated_picture() -> str:
    """The picture of the simulated cluster."""
    with simulated("blocked") as words:
        return picture(words)


def as_simulated(page: str) -> str:
    """The page with the output of all its blocks as it is now."""
    for scene in SIMULATED:
        if MARK.format(scene) not in page:
            continue
        with simulated(scene) as words:
            page = rewritten(page, scene, words)
    if MARK.format("strimzi") in page:
        with of_strimzi() as environment:
            page = rewritten(page, "strimzi", {CLUSTER_ID: CLUSTER_ID}, **environment)
    if MARK.format("fleet") in page:
        with of_fleet() as environment:
            page = rewritten(page, "fleet", {CLUSTER_ID: CLUSTER_ID}, **environment)
    return page


@contextmanager
def of_fleet() -> Iterator[dict[str, str]]:
    """The environment of commands in a folder with the logs of a generated fleet, `logs`, to which bash links them."""
    with tempfile.TemporaryDirectory() as folder:
        write_fleet(Path(folder, "fleet"), SMALL)
        begin = Path(folder, "begin.sh")
        begin.write_text(f"ln -s {folder}/fleet/logs logs\n")
        yield {"BASH_ENV": str(begin)}


@contextmanager
def of_strimzi() -> Iterator[dict[str, str]]:
    """The environment of commands for a namespace with a `Kafka` that has a listener with TLS and simple
    authorization.
    """
    api = ApiServer()
    listener = {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "tls"}}
    kafka = {"version": "4.3.1", "listeners": [listener], "authorization": {"type": "simple"}}
    metadata = {"namespace": "kafka", "name": "my-cluster", "uid": "uid"}
    path = "/apis/kafka.strimzi.io/v1/namespaces/kafka/kafkas/my-cluster"
    api.store(path, {"metadata": metadata, "spec": {"kafka": kafka}})
    with served(api) as address, tempfile.TemporaryDirectory() as folder:
        yield {"KUBECONFIG": str(written_kubeconfig(Path(folder), address))}


SCENES = (*SIMULATED, "strimzi", "fleet", "bucket", "pods", "approval", "installed", "rolled")
"""In a bucket and in pods: what `fleet` has in a folder. The last three are on Kubernetes, too: the operator as a
process with simulated Kafka; all of it, as README installs it; nine nodes that were rolled."""


def pages_of(scene: str) -> dict[str, str]:
    """What stands in the pages that show this scene."""
    pages = {name: (ROOT / name).read_text() for name in PAGES}
    return {name: page for name, page in pages.items() if MARK.format(scene) in page}


def on_kubernetes(scene: str, status: Mapping[str, Any], folder: Path, **environment: str) -> None:
    """The pages of this scene show what is printed now. `status`: of the resource, whose plan waits for approval."""
    words = {status["clusterId"]: CLUSTER_ID, status["plan"]["hash"][: len(PLAN)]: PLAN}
    compared(scene, words, folder, **environment)


def compared(scene: str, words: Words, folder: Path, **environment: str) -> None:
    """The pages of this scene show what is printed now. `folder`: of the pages as they are to be."""
    for name, page in pages_of(scene).items():
        now = rewritten(page, scene, words, **environment)
        (folder / Path(name).name).write_text(now)
        assert now == page, f"{name} as it is to be: {folder / Path(name).name}"
