"""Names say what a value is, and docstrings what comes back: held by ratios, since no list of phrases can."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

OPERATOR = Path(__file__).parents[2] / "operator"
GENERATED = OPERATOR / "kraftlog" / "decoders"
SAYS_NOTHING = frozenset(
    "found seen said kept held asked told known given left wanted made taken read sent written shown drawn named "
    "stopped begun settled one every all these here now more what where which why when there others rest place behind "
    "before after around whole own only same way".split()
)
QUESTIONS = frozenset("What Whether Where Why How Which Who When Whatever Whoever Whose".split())
LIMITS = {
    "featurelog": (0.002, 0.002),
    "kafkafeatures": (0.022, 0.01),
    "kafkasim": (0.015, 0.02),
    "kraftlog": (0.002, 0.002),
}
"""By package: shares of the names that are bound, and of the docstrings. In kopf, rich and aiohttp they are 0.01."""
OF_KAFKA = frozenset(("ApiVersionsRequest", "UnregisterControllerRequest"))
"""Names of requests, which their schemas in `kafka.wire` have as well: as Kafka and kio name them."""


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


@cache
def trees(package: str) -> tuple[ast.Module, ...]:
    paths = sorted((OPERATOR / package).rglob("*.py"))
    return tuple(ast.parse(path.read_text()) for path in paths if GENERATED not in path.parents)


@pytest.mark.parametrize("package", LIMITS)
def test_few_names_say_nothing(package: str) -> None:
    names = [name for tree in trees(package) for name in bound(tree)]
    assert sum(name in SAYS_NOTHING for name in names) <= LIMITS[package][0] * len(names)


@pytest.mark.parametrize("package", LIMITS)
def test_few_docstrings_begin_with_a_question_word(package: str) -> None:
    texts = [text for tree in trees(package) for text in docstrings(tree)]
    questions = sum(text.split(None, 1)[0].strip("`,:") in QUESTIONS for text in texts)
    assert questions <= LIMITS[package][1] * len(texts)


@pytest.mark.parametrize("package", LIMITS)
def test_no_two_classes_of_a_package_have_one_name(package: str) -> None:
    nodes = (node for tree in trees(package) for node in ast.walk(tree))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} <= OF_KAFKA
