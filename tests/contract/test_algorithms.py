"""The algorithms on top of the main modules name functions that are there, and the rules of a roll are defined once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PRODUCT = Path(__file__).resolve().parents[2] / "operator" / "kafkafeatures"
ROLL = "core/roll/roll.py"
MAIN = (ROLL, "core/migration/stage.py", "core/levels/stage.py", "kafka/log/follower.py")
STEP = re.compile(r"^ ?(\d+)\. ", re.MULTILINE)
RULE = re.compile(r"^(P\d)\. (.*?)(?=^P\d\. |\Z)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`(\w+(?:\.\w+)*)`")
DEFINITION = re.compile(r"^ *(?:async def|def|class) (\w+)|^(\w+)(?:: .*)? = ", re.MULTILINE)
DEFINED = {name for path in PRODUCT.rglob("*.py") for pair in DEFINITION.findall(path.read_text()) for name in pair}
SETTINGS = {"stableFor", "finalizeAfter", "metadata.max.idle.interval.ms"}


def algorithm(module: str) -> str:
    prologue = ast.get_docstring(ast.parse((PRODUCT / module).read_text())) or ""
    return prologue[prologue.index(" 1. ") :]


@pytest.mark.parametrize("module", MAIN)
def test_a_main_module_begins_with_its_algorithm_in_numbered_steps(module: str) -> None:
    numbers = [int(number) for number in STEP.findall(algorithm(module))]
    assert len(numbers) > 5
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("module", MAIN)
def test_each_name_of_an_algorithm_is_defined_in_the_code(module: str) -> None:
    names = set(NAME.findall(algorithm(module))) - SETTINGS
    assert not {part for name in names for part in name.split(".")} - DEFINED


def test_each_rule_of_a_roll_names_its_implementation_and_the_code_cites_only_rules_that_exist() -> None:
    rules = dict(RULE.findall(algorithm(ROLL)))
    assert list(rules) == [f"P{number}" for number in range(1, len(rules) + 1)]
    assert all(NAME.search(text) for text in rules.values())
    texts = (path.read_text() for path in (PRODUCT / ROLL).parent.glob("*.py"))
    assert {rule for text in texts for rule in re.findall(r"\b[PS]\d\b", text)} == rules.keys()
