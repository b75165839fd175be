"""What the page of comparisons says of KafkaFeatures in numbers, counted anew."""

from __future__ import annotations

import re
from typing import Any

import yaml

from kafkafeatures.cli.shell.commands import COMMANDS
from tests.examples import ROOT

PAGE = (ROOT / "docs/explanation/compared.md").read_text()
CHART = ROOT / "charts/kafka-features-operator"


def numbers(row: str) -> list[int]:
    """The numbers in the last cell of a row."""
    (cell,) = re.findall(rf"^\| {re.escape(row)} \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE)
    return [int(number) for number in re.findall(r"\d+", cell)]


def leaves(value: Any) -> int:
    """Leaves of a mapping; an empty one counts as one."""
    return sum(map(leaves, value.values())) if isinstance(value, dict) and value else 1


def fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema of each property, through lists and maps."""
    inside = [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    own = [*schema.get("properties", {}).values()]
    return own + [field for one in (*own, *inside) for field in fields(one)]


def test_commands_values_alerts_and_pages_are_as_many_as_the_page_of_comparisons_says() -> None:
    assert numbers("top-level commands") == [len(COMMANDS)]
    assert numbers("values") == [leaves(yaml.safe_load((CHART / "values.yaml").read_text()))]
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    assert numbers("PrometheusRule with the alerts") == [sum(len(group["rules"]) for group in groups)]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    apart = ("runbooks/", "reference/commands/", "upstream/")
    assert numbers("pages, without runbooks") == [sum(not page.startswith(apart) for page in pages)]
    runbooks = {page for page in pages if page.startswith("runbooks/")} - {"runbooks/README.md"}
    assert numbers("runbook pages") == [len(runbooks)]


def test_fields_of_the_crd_are_as_many_as_the_page_of_comparisons_says() -> None:
    (version,) = yaml.safe_load((ROOT / "crds/kafkafeatures.yaml").read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    counted = [*fields(schema["spec"]), *fields(schema["status"])]
    columns = version["additionalPrinterColumns"]
    (cells,) = re.findall(r"^\| \*\*KafkaFeatures\*\*, 1 kind \| (.*) \|$", PAGE, re.MULTILINE)
    described = sum("description" in field for field in counted)
    columns_described = sum("description" in column for column in columns)
    assert cells == f"{len(counted)} | {described} | {len(columns)} | {columns_described}"
