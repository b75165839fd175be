"""Claims of docstrings: a module that is named as a user, such as in "Called by `stage.py`", uses the module that makes
the claim, and an exception that is named after "Raises" exists.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Set
from pathlib import Path

import grimp
import pytest

from tests.contract.test_layers import PACKAGES

ROOT = Path(__file__).parents[2] / "operator"
VERBS = "called|chosen|created|imported|made|owned|read|sent|shared|used|written"
CLAIM = re.compile(rf"(?:^|[.;:,] |and )(?:{VERBS})(?: back)? (?:by|through) .*?(?=[.;:](?: |$)|$)", re.IGNORECASE)
NAMED = re.compile(r"(?:\bby|\bthrough|,|\band) `([\w./]+)`")
RAISED = re.compile(r"\b[Rr]aises? ((?:(?:, | and | or )?`?[A-Z]\w+`?)+)")
PATHS = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in PATHS.items()}

GRAPH = grimp.build_graph(*PACKAGES, cache_dir=None)


def imported_by(module: str) -> frozenset[str]:
    """The modules that a module imports, itself or by the names of a package."""
    direct = GRAPH.find_modules_directly_imported_by(module)
    packages = [each for each in direct if GRAPH.find_children(each)]
    return frozenset(direct.union(*map(GRAPH.find_modules_directly_imported_by, packages)))


def is_used(module: str, user: str) -> bool:
    """Tell whether `user` imports the module, has its name as a text, or calls a method that its classes have: their
    objects may have been passed to it.
    """
    texts = [node.value for node in ast.walk(TREES[user]) if isinstance(node, ast.Constant)]
    attributes = {node.attr for node in ast.walk(TREES[user]) if isinstance(node, ast.Attribute)}
    classes = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.ClassDef)]
    methods = {getattr(node, "name", "") for each in classes for node in each.body}
    return module in imported_by(user) or bool(attributes & methods) or any(module in str(text) for text in texts)


def false_claims(module: str, docstring: str) -> Iterator[str]:
    """The names of users in a docstring that do not use the module. In the product a name without `.py` is a command,
    and elsewhere it may be a function: these are no claims.
    """
    for name in NAMED.findall(" ".join(CLAIM.findall(" ".join(docstring.split())))):
        suffix = "." + name.strip("/").removesuffix(".py").replace("/", ".")
        near = [each for up in range(1, 9) if (each := module.rsplit(".", up)[0] + suffix) in TREES][:1]
        users = near or [each for each in TREES if f".{each}".endswith(suffix)]
        is_claim = name.endswith(".py") or (users and not module.startswith("kafkafeatures."))
        if is_claim and not any(is_used(module, user) for user in users):
            yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_module_that_a_docstring_names_as_a_user_uses_that_module(package: str) -> None:
    texts = {name: ast.get_docstring(tree) or "" for name, tree in TREES.items() if name.split(".")[0] == package}
    assert {name: claims for name, text in texts.items() if (claims := [*false_claims(name, text)])} == {}
    assert [*false_claims("kafkasim.migration.topics", "Called by `driver`, and by `cluster`.")] == ["cluster"]


def missing_exceptions(docstring: str, classes: Set[str]) -> list[str]:
    """Exceptions that a docstring names after "Raises", and that are neither among these classes nor builtin."""
    names = re.findall(r"[A-Z]\w+", " ".join(RAISED.findall(" ".join(docstring.split()))))
    return [name for name in names if name not in classes and not hasattr(builtins, name)]


def test_each_exception_that_a_docstring_names_exists() -> None:
    nodes = [(module, node) for module, tree in TREES.items() for node in ast.walk(tree)]
    classes = {node.name for _, node in nodes if isinstance(node, ast.ClassDef)}
    classes |= {name.name for _, node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [(module, ast.get_docstring(node) or "") for module, node in nodes if isinstance(node, documented)]
    missing = [(module, name) for module, text in texts for name in missing_exceptions(text, classes)]
    assert missing == []
    assert missing_exceptions("Return it. Raises TooLarge, or\n ValueError.", classes) == ["TooLarge"]
