"""The script of the documentation that collects scrapes, on a real API server: the scrapes in its ConfigMap give the
true verdict.
"""

from __future__ import annotations

import os
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from kafkafeatures.api.values import replace
from kafkafeatures.client_files.config_map import read_config_map
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.clients.verdict import ClientVerdict
from tests.clients.exporters import answer_of
from tests.clients.histories import DAY, END, History, Process, checked
from tests.e2e.rig.kubernetes.binaries import binary
from tests.e2e.rig.kubernetes.cluster import ControlPlane

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "find-old-clients.md"
NAME = "kafka-clients"
RESTART = END - 10 * DAY
IDS = (0, 1, 2)
ROLLED = (Process(END - 60 * DAY, RESTART), Process(RESTART + 2, END))
TIMES = (*range(END - 50 * DAY, END - 4, DAY), RESTART + 2, RESTART + 4, END - 4, END)
"""Minutes at which the script runs: once a day, and more often around a restart and at the end."""


class Exporters:
    """Exporters of all brokers. In its first minute a broker has no counters yet. `minute`: the time, for them and for
    the script.
    """

    def __init__(self, history: History) -> None:
        self.history, self.minute = history, 0
        exporters = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                scrape = exporters.history.scrape(int(self.path[1:]), exporters.minute)
                self.send_response(200 if scrape is not None else 503)
                self.end_headers()
                if scrape is not None:
                    has_begun = exporters.minute * MINUTE - scrape.start < MINUTE
                    text = answer_of(replace(scrape, counters={}) if has_begun else scrape)
                    self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the base class has it
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def folder(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Path]:
    """A folder with programs that the script finds before others: kubectl, and a clock that is set."""
    (tmp_path / "kubectl").symlink_to(binary("kubectl"))
    (tmp_path / "date").write_text('#!/bin/sh\necho "$NOW"\n')
    (tmp_path / "date").chmod(0o755)
    control_plane.kubectl("create", "configmap", NAME)
    yield tmp_path
    control_plane.kubectl("delete", "configmap", NAME)


def environment_of(control_plane: ControlPlane, folder: Path) -> dict[str, str]:
    path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(control_plane.kubeconfig)}


def scrape_times(control_plane: ControlPlane, folder: Path, history: History) -> None:
    """Run the script of the page at each of `TIMES`."""
    (text,) = re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE.read_text())
    environment = environment_of(control_plane, folder)
    with closing(Exporters(history)) as exporters:
        script, places = re.subn(r"http://[^\"]+/metrics", lambda _: f"{exporters.address}/$1", text)
        assert places == 1
        for minute in sorted(set(TIMES)):
            exporters.minute = minute
            environment["NOW"] = str(minute * 60)
            done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("uses", "verdict"), [((), ClientVerdict.READY), ((END - 20 * DAY - 9,), ClientVerdict.BLOCKED)],
    ids=["no removed version", "a removed version 20 days ago"],
)  # fmt: skip
def test_the_script_of_the_page_writes_scrapes_that_give_the_true_verdict(
    control_plane: ControlPlane, folder: Path, uses: tuple[int, ...], verdict: ClientVerdict
) -> None:
    used = (Process(END - 60 * DAY, RESTART, uses=uses), ROLLED[1])
    scrape_times(control_plane, folder, History({0: ROLLED, 1: used, 2: ROLLED}))
    entries = control_plane.get("configmap", NAME)["binaryData"]
    evidence = read_config_map({name: b64decode(data) for name, data in entries.items()}, END * MINUTE)
    assert evidence.problems == ()
    assert evidence.newest == END * MINUTE
    assert checked(evidence.scrapes, IDS).verdict is verdict
    assert len(entries) <= len(IDS) * 12  # the script keeps few of the more than 50 scrapes of each broker


def test_request_logs_and_owners_are_added_to_the_scrapes(control_plane: ControlPlane, folder: Path) -> None:
    command = re.findall(r"(?m)^    (kubectl create .* --dry-run.*\n.*)$", PAGE.read_text())
    assert len(command) == 1
    (folder / "reduced" / "1").mkdir(parents=True)
    (folder / "reduced" / "1" / "hour.jsonl.gz").write_bytes(b"\x1f\x8b\xff")  # not text, so it is binary data
    (folder / "owners.yaml").write_text("owners: []\n")
    control_plane.kubectl("patch", "configmap", NAME, "--type", "merge", "-p", '{"data": {"1-9.prom": "x"}}')
    script = command[0].replace("-n kafka", "")
    environment = environment_of(control_plane, folder)
    subprocess.run(["sh", "-c", script], cwd=folder, env=environment, capture_output=True, check=True)
    entries = control_plane.get("configmap", NAME)
    assert entries["data"] == {"1-9.prom": "x", "owners.yaml": "owners: []\n"}
    assert list(entries["binaryData"]) == ["hour.jsonl.gz"]


def test_the_rights_of_the_page_suffice_for_the_job(control_plane: ControlPlane) -> None:
    page = PAGE.read_text()
    (job,) = (
        document
        for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", page)
        if (document := yaml.safe_load(text)).get("kind") == "CronJob"
    )
    control_plane.kubectl("create", "namespace", "scrapes")
    job["metadata"]["namespace"], job["spec"]["suspend"] = "scrapes", True
    control_plane.apply(job)
    for line in re.findall(r"(?m)^    kubectl (create (?:configmap|serviceaccount|role|rolebinding) .*)", page):
        if "--from-file" not in line:
            control_plane.kubectl(*line.replace("-n kafka", "-n scrapes").replace("=kafka:", "=scrapes:").split())
    account = control_plane.kubeconfig_of("scrapes", NAME)
    patch = '{"binaryData": {"a": "eA=="}}'
    control_plane.kubectl(
        "patch", "configmap", NAME, "-n", "scrapes", "--type", "merge", "-p", patch, kubeconfig=account
    )
    text = control_plane.kubectl("get", "configmap", NAME, "-n", "scrapes", "-o", "json", kubeconfig=account)
    assert '"a": "eA=="' in text
    control_plane.kubectl("delete", "namespace", "scrapes")
