"""A newcomer follows the page from its first command to its last: packaged chart and image in a registry, Kafka with
SCRAM over TLS. No other command is run, and what the page shows of their output is what they print.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkafeatures import __version__
from release import chart, images
from release.plan import SETTINGS, Plan
from tests.e2e.kubernetes.on_node.test_install import NS, RELEASE
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.binaries import binary, build, install_packages, run
from tests.e2e.rig.kubernetes.images import operator_image
from tests.e2e.rig.kubernetes.network import HOST
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.registry import PASSWORD, USER, Registry, registry
from tests.e2e.rig.releases import RECENT
from tests.e2e.rig.releasing import PACKAGES
from tests.examples import CLUSTER_ID, PLAN, ROOT, left_out, replaced, steady

PAGE = ROOT / "docs" / "how-to" / "beside-a-secured-cluster.md"
BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)
COMMAND = re.compile(r"(?:.*\\\n)*(?:.*<<END\n(?:.*\n)*?END\n|.*\n)")
EXIT = re.compile(r"# exit code (\d+)")
NAMESPACE = "streaming"
TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
}
MECHANISM = "SCRAM-SHA-512"
SCRAM_FOR_CONTROLLERS = {
    "listener.name.controller.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    f"listener.name.controller.{MECHANISM.lower()}.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
APPROVED = re.compile(r"--plan (sha256:[0-9a-f]+)")
END = "--- the end of a command"


@pytest.fixture(scope="module")
def stocked(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with the image, and with the chart as a release packs it: it names the image by digest."""
    build(["helm"])
    install_packages(PACKAGES)
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder / "registry", node.control_plane.authority, HOST) as running:
        node.trust(running)
        path = f"{binary('helm').parent}:{os.environ['PATH']}"
        given = dict.fromkeys(SETTINGS, "") | {"VERSION": __version__, "REGISTRY": running.address}
        plan = Plan(ROOT, folder / "release", given, {**os.environ, **running.environment, "PATH": path})
        plan.out.mkdir()
        run("skopeo", "copy", f"oci-archive:{operator_image()}", f"oci:{plan.layout}:{plan.version}")
        chart.package(plan)
        images.push(plan)
        chart.push(plan)
        yield running


@pytest.fixture(scope="module")
def secured(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and two brokers of 4.3 with the levels of 4.1, where pods reach them: SCRAM over TLS alone, and no
    right that was not granted.
    """
    folder = tmp_path_factory.mktemp("kafka")
    with Cluster(
        folder, RECENT, controllers=1, brokers=2, kind=MECHANISM, release_version="4.1", authorizer=True,
        properties=SCRAM_FOR_CONTROLLERS, host=HOST,
    ) as running:  # fmt: skip
        yield running


@pytest.fixture
def environment(node: Node, stocked: Registry, secured: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Everything that the page requires: programs, the two files, and a cluster of Kubernetes."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, main in TOOLS.items():
        command = shlex.join(secured.release.java(main, log4j="tool"))
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    (tmp_path / "admin.properties").write_bytes(secured.client_config("node").read_bytes())
    (tmp_path / "ca.crt").write_text(secured.certificates.ca)
    programs = (tools, binary("kubectl").parent, binary("helm").parent, Path(sys.executable).parent)
    plane = node.control_plane
    plane.kubectl("delete", "namespace", NAMESPACE, NS, "--ignore-not-found")
    yield {
        "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(plane.kubeconfig),
        "SSL_CERT_FILE": str(stocked.authority),
        "COLUMNS": "100",
    }
    plane.helm("uninstall", RELEASE, "-n", NS, "--ignore-not-found", "--wait")
    plane.kubectl("delete", "namespace", NAMESPACE, NS, "--ignore-not-found")


def with_values(commands: str, values: dict[str, str]) -> str:
    """The commands with the reader's values in place of the page's."""
    for name, value in values.items():
        commands, count = re.subn(rf"(?m)^{name}=\S+", f"{name}={value}", commands)
        assert count == 1, f"{name} is set once on the page"
    return commands


def outputs_of(commands: list[str], folder: Path, environment: dict[str, str]) -> list[str]:
    """Run the commands in one shell, and return what each prints. Fails at the first one whose exit code is not the one
    that the page names (0 without a comment).
    """
    lines = []
    for command in commands:
        code = found[1] if (found := EXIT.search(command)) else 0
        lines.append(f"{command}code=$?; echo '{END}'; [ $code = {code} ] || exit 1\n")
    (folder / "page.sh").write_text("".join(lines))
    done = subprocess.run(
        ["bash", "page.sh"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
    )  # fmt: skip
    *printed, rest = done.stdout.split(f"{END}\n")
    for command, output in zip(commands, printed, strict=False):
        print(f"$ {command}{output}", end="")
    assert done.returncode == 0, f"{commands[len(printed) - 1]}{printed[-1]}{rest}"
    return printed


def secrets_of(node: Node) -> Iterator[str]:
    """The passwords of the registry, of Kafka's users, and of the login that the page creates."""
    login = node.control_plane.get("secret", "kafka-login", "-n", NAMESPACE)["data"]
    yield from (PASSWORD, *USERS.values(), base64.b64decode(login["password"]).decode())


def page_with_outputs(page: str, outputs: Iterable[str]) -> str:
    """The page with these outputs in place of those that it shows. `outputs`: one for each block of commands."""
    remaining = iter(outputs)

    def as_printed(found: re.Match[str]) -> str:
        output, before = next(remaining), found["output"]
        return found[0] if before is None else found[0].replace(before, left_out(before, output))

    return BLOCK.sub(as_printed, page)


def test_the_commands_of_the_page_raise_a_level_and_print_what_the_page_shows_and_no_secret(
    node: Node, stocked: Registry, secured: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    values = {
        "REGISTRY": stocked.address,
        "REGISTRY_USER": USER,
        "REGISTRY_PASSWORD": PASSWORD,
        "KAFKA": secured.bootstrap_servers,
    }
    page = PAGE.read_text()
    part = with_values(page, values)
    blocks = [COMMAND.findall(block["commands"]) for block in BLOCK.finditer(part)]
    output_of_each = iter(outputs_of([command for block in blocks for command in block], tmp_path, environment))
    outputs = ["".join(next(output_of_each) for _ in block) for block in blocks]

    assert secured.features()["metadata.version"][2] == "4.3-IV0"
    everything = "".join(outputs)
    for secret in secrets_of(node):
        assert secret not in everything
    words = {
        stocked.address: "registry.example",
        secured.bootstrap_servers: "kafka-1.example:9093",
        secured.cluster_id: CLUSTER_ID,
        APPROVED.findall(everything)[0]: PLAN,
    }
    now = page_with_outputs(page, (steady(replaced(output, words)) for output in outputs))
    (tmp_path / PAGE.name).write_text(now)
    assert now == page, f"{PAGE.name} as it is to be: {tmp_path / PAGE.name}"
