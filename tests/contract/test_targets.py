"""The targets of the Makefile: pages name only targets that exist, and each suite that takes long has one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests import run
from tests.run import SUITES, Suite

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"^([a-z0-9]+):.*## (.+)$", MAKEFILE, re.MULTILINE))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_make_target_that_a_page_names_exists() -> None:
    named = {(page.name, target) for page in PAGES for target in re.findall(r"\bmake ([a-z0-9]+)\b`", page.read_text())}
    assert ("CONTRIBUTING.md", "kafka") in named
    assert {target for _, target in named} <= TARGETS.keys()


def test_every_make_target_has_a_description_and_is_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS.keys()


@pytest.mark.parametrize("part", ["unit", "kafka", "migration", "kubernetes", "pipeline"])
def test_a_suite_that_takes_long_has_a_make_target(part: str) -> None:
    assert f"-m tests.run {part}\n" in MAKEFILE
    assert part in TARGETS


def test_the_makefile_runs_suites_that_exist() -> None:
    names = " ".join(re.findall(r"-m tests\.run ?(.*)$", MAKEFILE, re.MULTILINE)).split()
    assert set(names) <= {suite.name for suite in SUITES}


def test_spark_is_installed_as_in_its_image_and_no_other_package_is_built() -> None:
    image = (ROOT / "Dockerfile.pipeline").read_text()
    flags = "--require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation"
    for text in (MAKEFILE, image):
        (found,) = re.findall(r"pip (?:install|wheel)((?:(?!pip ).)*?)-r requirements/pipeline\.lock", text, re.DOTALL)
        assert set(flags.split()) <= set(found.split())


def test_a_failed_test_is_named_again_in_the_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = "print('FAILED tests/test_it.py::test_it'); raise SystemExit(1)"
    monkeypatch.setattr(run, "SUITES", [Suite("unit", [[sys.executable, "-c", failing]], 1)])
    assert run.main(["unit"]) == 1
    _, summary = capsys.readouterr().out.split("\nSuites:\n")
    assert "FAILED tests/test_it.py::test_it\n" in summary


def output_of_slow_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """The output of a run that takes longer than its budget. `folder`: the cache of the types."""
    monkeypatch.setattr(run, "SUITES", [Suite("unit", [[sys.executable, "-c", ""]], 0)])
    monkeypatch.setattr(run, "MINUTES", 1e-9)
    monkeypatch.setattr(run, "TYPES", folder)
    assert run.main(["unit"]) == 0
    return capsys.readouterr().out


def test_a_cold_run_is_announced_at_the_start_and_has_no_budget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, *_, unit, together, _ = output_of_slow_run(monkeypatch, capsys, tmp_path / "none").splitlines()
    assert first == run.COLD
    assert [line.rpartition(", ")[2] for line in (unit, together)] == ["cold", "cold"]


def test_a_warm_run_that_takes_too_long_is_reported_as_over_its_budget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    *_, unit, together, _ = output_of_slow_run(monkeypatch, capsys, tmp_path).splitlines()
    assert [line.rpartition(", ")[2] for line in (unit, together)] == ["over its budget"] * 2
    assert run.COLD not in (unit, together)


def test_make_check_has_a_budget_of_three_minutes() -> None:
    (recipe,) = re.findall(r"^check:.*\n\t(.+)$", MAKEFILE, re.MULTILINE)
    assert "MINUTES=3 " in recipe
