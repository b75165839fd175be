"""One word for one thing: what users read has the terms of Kafka's and Kubernetes' documentation.

Searches the strings of the code that are not docstrings, the CRD and its samples, the chart, and all documentation.
Names and docstrings of the code are held by ratios (`tests/names.py`); no docstring begins with a reference.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "crds/**/*.yaml", "charts/**/*.md", "charts/**/*.txt", "charts/**/values.yaml")
SPOKEN = sorted((ROOT / "operator").rglob("*.py"))

INSTEAD = {
    r"cannot be taken back|\bfor good\b": "irreversible, permanently",
    r"\bin the way\b": "blocker",
    r"\blowering\b|\blowers?\b (it|a level|level)": "downgrade",
    r"\b(some|any)body( else)?\b|\bsomeone else\b": "changed outside KafkaFeatures; or the role that acts",
    r"\bnobody\b|\ba human\b": "resolves automatically; action required",
    r"\bgood once\b": "can be used once",
    r"\b(a|each|one|last|its|the|failed) pass\b|\bpasses (are|have|took|that)\b": "reconciliation",
    r"\bliving\b": "live",
    r"\bstrangers?\b|\bobituary\b": "unknown; ghost registration",
    r"\bno (such )?voters?\b|\bvoters? any ?more|\bnot .{0,30}any ?more": "no longer a voter; no longer",
    r"\bfinalized and read\b": "finalized and verified on every live node",
    r"controller's (own )?verdict|\bown verdict\b|verdict of the active": "dry run (validateOnly) accepted, rejected",
    r"not said anything": "not reconciled yet",
    r"\bforgets?\b": "unregister",
    r"\bgo(es)? on\b": "continue; resumed",
    r"(?<!there )\bis no (?!longer\b)\w": "invalid address 'x': expected host:port",
    r"no such field|known here\b|, and not there\b|\bfound '|allowed is\b": "unknown field; required field is missing",
    r"\bexpected was\b|\basked was\b|\bwanted is\b": "connected to cluster A, expected B; is required",
    r"without an end\b": "rate limit reached",
}

OPENING = re.compile(
    r"(Of|The same|As|And|But|Or|Its?|They|Those|Their|So|Then|Else|Also|Such as|Passed on|All of (it|them))\b"
    r"|That (of|no|is|allows|its)\b"
)
"""Beginnings that no docstring may have, as they refer to another text."""

READ = ("operator", "tests", "docs")


def _spoken(path: Path) -> Iterator[tuple[int, str]]:
    """Strings that are not docstrings. Of an f-string its constant parts."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


@cache
def texts() -> tuple[tuple[str, str], ...]:
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for path in SPOKEN:
        yield from ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in _spoken(path))
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            lines = enumerate(path.read_text().splitlines(), start=1)
            yield from ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in lines)


@pytest.mark.parametrize("phrase", INSTEAD)
def test_no_text_has_a_phrase_that_the_list_replaces(phrase: str) -> None:
    found = [f"{where}: {text.strip()}" for where, text in texts() if re.search(phrase, text, re.IGNORECASE)]
    assert not found, f"say: {INSTEAD[phrase]}"


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.value.value}"


@pytest.mark.parametrize("room", READ)
def test_no_docstring_begins_with_a_reference_to_another_text(room: str) -> None:
    texts_of_room = [text for path in sorted((ROOT / room).rglob("*.py")) for text in docstrings(path)]
    assert not [text for text in texts_of_room if OPENING.match(text.split(": ", 1)[1])]


def test_the_search_reads_the_texts_that_users_read() -> None:
    read = {where.split(":")[0] for where, _ in texts()}
    assert {"README.md", "crds/kafkafeatures.yaml", "operator/kafkafeatures/core/levels/checks.py"} <= read
    assert any("is required" in text for _, text in texts())
