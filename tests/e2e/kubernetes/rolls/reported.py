"""The page of a report on a real roll, judged by Kafka's own dump of its metadata log and in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes.rolls.rolling import NAME
from tests.e2e.rig.browser import opened
from tests.e2e.rig.kubernetes.racks import PASSWORD, USER, USER_PORT, Racks, pods_of
from tests.e2e.rig.process import ENVIRONMENT
from tests.kafkafeatures.cli.test_report_page import Page

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={MODULE} username="{USER}" password="{PASSWORD}";
"""
OFFSET = re.compile(r"^\d\d:\d\d:\d\doffset (\d+)$")
TIMES = re.compile(r", \d+ times$")
SAYS: dict[int, tuple[str, dict[str, Any]]] = {
    0: ("BROKER_REGISTRATION_CHANGE_RECORD", {"inControlledShutdown": 1}),
    1: ("BROKER_REGISTRATION_CHANGE_RECORD", {"fenced": 1}),
    2: ("REGISTER_BROKER_RECORD", {}),
    3: ("BROKER_REGISTRATION_CHANGE_RECORD", {"fenced": -1}),
}
"""Stop, down, start, unfenced: the record that must stand behind each."""


def report(racks: Racks, folder: Path) -> Page:
    """The page as the command writes it, opened in a browser: the same rows, and nothing on the console."""
    page, login = folder / "report.html", folder / "client.properties"
    login.write_text(LOGIN)
    words = ("report", NAME, "-n", racks.namespace, "--html", page, "--config", login)
    where = (
        *("--bootstrap-server", racks.addresses("brokers", USER_PORT)),
        *("--bootstrap-controller", racks.addresses("controllers", USER_PORT)),
    )
    done = subprocess.run(
        racks.with_names(sys.executable, "-m", "kafkafeatures", *words, *where),
        env={**ENVIRONMENT, "KUBECONFIG": str(racks.plane.kubeconfig)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in page.read_text()
    seen = opened(page, folder / "profile")
    assert seen.console == ()
    made = Page(seen.document)
    assert made.rows == Page(page.read_text()).rows
    return made


def judge(racks: Racks, made: Page, topic: str) -> None:
    """Every node once, with its pod; each phase of a broker is the record that Kafka's own dump has at that offset.

    Phases of the last nine restarts: a roll before this one may have ended a moment before.
    """
    records = {one["offset"]: one for one in racks.records()}
    names = {
        f"{'controller' if pod in pods_of('controllers') else 'broker'} {id_}": pod
        for id_, pod in racks.node_ids.items()
    }
    _, *drawn = made.rows_under("Timeline of")
    lanes = sorted(TIMES.sub("", row[0]) for row in drawn)
    assert lanes == sorted(f"{name}{pod}" for name, pod in names.items())
    for node, *times, took in made.rows_under("When, and the offset")[-len(names) :]:
        assert took.endswith(" s"), (node, took)
        assert times[-1].endswith("operator"), (node, times)
        number = int(node.split()[1])
        if node.startswith("controller"):
            _is(records, times[2], "REGISTER_CONTROLLER_RECORD", {"controllerId": number})
            continue
        for at, (kind, said) in SAYS.items():
            _is(records, times[at], kind, {"brokerId": number, **said})
        in_sync = _is(records, times[4], "PARTITION_CHANGE_RECORD", {})
        assert number in in_sync["isr"]
    strips = made.rows_under("Availability of")[1:]
    assert {row[0].split("2 of 3")[0] for row in strips} >= {f"{topic}-{at}" for at in range(12)}
    assert {(row[2], row[3]) for row in strips} == {("-", "-")}
    for told in ("without a leader", "below min.insync.replicas"):
        assert re.search(rf"(?<!\d)0 of \d+partitions {told}", made.text)
    assert "2most nodes away at once" in made.text


def _is(records: dict[int, dict[str, Any]], cell: str, kind: str, said: dict[str, Any]) -> dict[str, Any]:
    found = OFFSET.match(cell)
    assert found, cell
    record = records[int(found[1])]
    assert record["type"] == kind, (cell, record)
    data: dict[str, Any] = record["data"]
    assert said.items() <= data.items(), (cell, record)
    return data
