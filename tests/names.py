"""Shares of names that say nothing and of docstrings that begin with a question word, and classes that share a name.

`python -m tests.names` prints them, as a part of `make check`, and fails above a limit: a ratio holds what no list of
phrases can. In kopf, rich and aiohttp both shares are about 0.01.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OPERATOR = Path(__file__).parents[1] / "operator"
SAYS_NOTHING = frozenset(
    "found seen said kept held asked told known given left wanted made taken read sent written shown drawn named "
    "stopped begun settled one every all these here now more what where which why when there others rest place behind "
    "before after around whole own only same way".split()
)
QUESTIONS = frozenset("What Whether Where Why How Which Who When Whatever Whoever Whose".split())
PACKAGES = ("featurelog", "kafkafeatures", "kafkasim", "kraftlog")
MOST_VAGUE, MOST_QUESTIONS = 0.01, 0.01
OF_KAFKA = frozenset(("ApiVersionsRequest", "UnregisterControllerRequest"))
"""Names of requests, which their schemas in `kafka.wire` have as well: as Kafka and kio name them."""


class Measure(NamedTuple):
    """Shares between 0 and 1, and the class names that several modules define."""

    package: str
    vague: float
    questions: float
    classes: int
    shared: frozenset[str]

    @property
    def is_plain(self) -> bool:
        """Tell whether it is within all limits."""
        return self.vague <= MOST_VAGUE and self.questions <= MOST_QUESTIONS and not self.shared

    def __str__(self) -> str:
        shared = f"names of several classes: {', '.join(sorted(self.shared))}" if self.shared else "no name twice"
        return (
            f"{self.package:14} vague names {self.vague:.1%} (at most {MOST_VAGUE:.0%}), docstrings that begin with a "
            f"question word {self.questions:.1%} (at most {MOST_QUESTIONS:.0%}), {self.classes} classes, {shared}"
        )


def measure(package: str) -> Measure:
    """The names of one package of `operator/`."""
    paths = sorted((OPERATOR / package).rglob("*.py"))
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    names = [name for node in nodes for name in _bound(node)]
    texts = [text for node in nodes for text in _docstring(node)]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return Measure(
        package,
        sum(name in SAYS_NOTHING for name in names) / len(names),
        sum(text.split(None, 1)[0].strip("`,:") in QUESTIONS for text in texts) / len(texts),
        len(classes),
        frozenset(name for name, times in classes.items() if times > 1) - OF_KAFKA,
    )


def _bound(node: ast.AST) -> Iterator[str]:
    """A target of an assignment, or a parameter."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
        yield node.arg


def _docstring(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
        yield text


if __name__ == "__main__":
    MEASURES = [*map(measure, PACKAGES)]
    print(*MEASURES, sep="\n")
    sys.exit(not all(one.is_plain for one in MEASURES))
