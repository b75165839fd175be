"""Names say what a value is, and docstrings what comes back: held by ratios, since no list of phrases can."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "operator" / "kafkafeatures"
SAYS_NOTHING = frozenset(
    "found seen said kept held asked told known given left wanted made taken read sent written shown drawn named "
    "stopped begun settled one every all these here now more what where which why when there others rest place behind "
    "before after around whole own only same way".split()
)
QUESTIONS = frozenset("What Whether Where Why How Which Who When Whatever Whoever Whose".split())
MOST_VAGUE, MOST_QUESTIONS = 0.026, 0.01
"""Shares of the names that are bound, and of the docstrings; in kopf, rich and aiohttp they are about 0.01 each."""


def bound(tree: ast.Module) -> Iterator[str]:
    """Targets of assignments, and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
            text := ast.get_docstring(node)
        ):
            yield text


TREES = [ast.parse(path.read_text()) for path in sorted(PRODUCT.rglob("*.py"))]


def test_few_names_say_nothing() -> None:
    names = [name for tree in TREES for name in bound(tree)]
    assert sum(name in SAYS_NOTHING for name in names) <= MOST_VAGUE * len(names)


def test_few_docstrings_begin_with_a_question_word() -> None:
    texts = [text for tree in TREES for text in docstrings(tree)]
    assert sum(text.split(None, 1)[0].strip("`,:") in QUESTIONS for text in texts) <= MOST_QUESTIONS * len(texts)
