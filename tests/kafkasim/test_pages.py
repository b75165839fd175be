"""`describe -o html` and `plan -o html` of simulated clusters: pages with the verdict, the cells and the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kafkafeatures.cli.test_cluster_page import bar, cells
from tests.kafkafeatures.cli.test_report_page import Page, commands
from tests.kafkasim.commands import shell
from tests.kafkasim.documents import PROGRAM, document, release
from tests.kafkasim.test_process import heard, simulator

WAYS = "Steps, in their order"


def test_the_page_of_a_waiting_plan_is_amber_and_has_its_approve_command(tmp_path: Path) -> None:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        release(tmp_path, heard(process))
        done = shell(f"{PROGRAM} plan -f levels.yaml -o html", tmp_path)
        assert (done.returncode, done.stderr) == (3, "")
        assert bar(done.stdout) == ("wait", "Waiting for approval")
        (approve,) = commands(done.stdout)
        assert re.fullmatch(r"kafkafeatures apply -f levels.yaml --approve sha256:[0-9a-f]{12}", approve)
        steps = Page(done.stdout).rows_under(WAYS)[1:]
        assert "downgrade may lose metadata" in steps[-1][2]
        assert steps[0][0].startswith("metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)")
        assert {kind for kind, _ in cells(done.stdout, "metadata.version")} == {"good"}
        assert "Plan for default/x, cluster " in done.stdout
        applied = shell(f"{PROGRAM} {approve.removeprefix('kafkafeatures ')} --yes", tmp_path)
        assert applied.returncode == 0, applied.stderr


def test_an_irreversible_step_is_marked_on_the_page_of_a_plan(tmp_path: Path) -> None:
    with simulator("--release", "4.4", "--metadata-version", "25") as process:
        document(tmp_path, heard(process), {"metadata.version": 33})
        done = shell(f"{PROGRAM} plan -f levels.yaml -o html", tmp_path)
    assert '<strong class="wait">irreversible</strong><br>no way back: ' in done.stdout


def test_the_page_of_a_blocked_plan_has_a_card_for_each_blocker(tmp_path: Path) -> None:
    with simulator("--release", "4.2", "--metadata-version", "25", "--old-broker", "3=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        done = shell(f"{PROGRAM} plan -f levels.yaml -o html", tmp_path)
    assert done.returncode == 4
    assert bar(done.stdout) == ("bad", "Blocked")
    assert re.findall("<h3>(.*?)</h3>", done.stdout) == ["broker 3, Kafka 4.0"]
    assert ("bad", "7-25 !") in cells(done.stdout, "metadata.version")


def test_the_page_of_a_plan_in_sync_is_green_and_has_no_steps(tmp_path: Path) -> None:
    with simulator("--release", "4.2", "--metadata-version", "29") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        done = shell(f"{PROGRAM} plan -f levels.yaml -o html", tmp_path)
    assert done.returncode == 0
    assert bar(done.stdout) == ("good", "In sync")
    assert WAYS not in done.stdout


@pytest.mark.parametrize("flags", ["", "--apis", "--explain-levels"])
def test_every_form_of_describe_has_a_page_that_loads_nothing(flags: str) -> None:
    with simulator("--release", "4.2", "--metadata-version", "25", "--ghost-broker", "9=4.0") as process:
        servers = heard(process)["bootstrapServers"]
        done = shell(f"{PROGRAM} describe --bootstrap-server {servers} {flags} -o html")
    assert (done.returncode, done.stderr) == (0, "")
    page = Page(done.stdout)
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert not re.search(r"https?:|<script|@import|url\(", done.stdout)
    if not flags:
        assert commands(done.stdout) == [f"kafkafeatures unregister --broker 9 --bootstrap-server {servers}"]
        assert "reaches the highest level" in page.text
    if flags == "--apis":
        assert "reaches the highest level" not in page.text  # no cell is filled
        assert [row[0] for row in page.rows if row[0].startswith("Fetch (")] == ["Fetch (1)"]
