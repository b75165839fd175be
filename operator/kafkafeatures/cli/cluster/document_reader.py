"""Reads KafkaFeatures documents from YAML files, strictly, and reports all errors at once.

A file may hold several documents, also as a Kubernetes List. Objects of other API groups, as in the output of Helm and
Kustomize, are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.names import GROUP
from kafkafeatures.api.spec import KafkaFeatures

MAX_DOCUMENT_BYTES = 1024 * 1024
"""Most bytes of a file."""
STDIN = Path("-")
"""The name of standard input as a file."""


class Contents(NamedTuple):
    """The KafkaFeatures documents of a file. `foreign_documents`: kind and name of each document of another API
    group.
    """

    resources: tuple[KafkaFeatures, ...]
    foreign_documents: tuple[str, ...]


def read_file(path: Path) -> Contents:
    """Read every document of a file, and check those that are ours; `-` is standard input.

    Raises InvalidDocument with all errors; OSError if the file cannot be read.
    """
    with open(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument((f"document too long; at most {MAX_DOCUMENT_BYTES} bytes are allowed",))
    documents = list(_flat(_parsed(data)))
    if not documents:
        raise InvalidDocument(("the file is empty; expected a KafkaFeatures document",))
    resources, other_names, problems = [], [], []
    for number, document in enumerate(documents, start=1):
        if _is_foreign(document):
            other_names.append(f"{document['kind']}{_name_of(document)}")
            continue
        try:
            resources.append(read_document(document))
        except InvalidDocument as error:
            prefix = f"document {number}{_name_of(document)}: " if len(documents) > 1 else ""
            problems += [f"{prefix}{problem}" for problem in error.problems]
    if problems:
        raise InvalidDocument(tuple(problems))
    return Contents(tuple(resources), tuple(other_names))


def _flat(documents: Iterable[Any]) -> Iterator[Any]:
    """The documents, with each Kubernetes List replaced by its items (`kubectl get -o yaml` prints Lists)."""
    for document in documents:
        is_list = (
            isinstance(document, Mapping) and document.get("apiVersion") == "v1" and document.get("kind") == "List"
        )
        yield from document.get("items") or () if is_list else (document,)


def _is_foreign(document: Any) -> bool:
    """True for a Kubernetes object of another API group. Anything else counts as ours, so that mistakes in it are
    reported.
    """
    version, kind = (document.get(key) for key in ("apiVersion", "kind")) if isinstance(document, Mapping) else ("", "")
    return isinstance(version, str) and isinstance(kind, str) and bool(version) and not version.startswith(f"{GROUP}/")


def _name_of(document: Any) -> str:
    """The name of a document in parentheses, behind a blank; empty without one."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f" ({str(name)[:60]})" if name else ""


def _parsed(data: bytes) -> list[Any]:
    try:
        return [document for document in yaml.load_all(data, Loader=_Loader) if document is not None]
    except yaml.reader.ReaderError as error:  # raw bytes, or characters, that no YAML may have
        raise InvalidDocument((_of_reader(error),)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + 1}: " if mark else ""
        raise InvalidDocument((f"{position}invalid YAML: {_problem_of(error)}",)) from None
    except RecursionError:
        raise InvalidDocument(("nested too deeply; this is not a KafkaFeatures document",)) from None
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidDocument((f"invalid YAML: {str(error).splitlines()[0]}",)) from None
    # a tag such as !!timestamp on a value of another type
    except (LookupError, AttributeError, TypeError, ArithmeticError):
        raise InvalidDocument(("invalid YAML: a value does not match its tag; remove the tag",)) from None


def _problem_of(error: yaml.YAMLError) -> str:
    """The message of a parser's error, in our words if a tab is the cause."""
    problem = str(getattr(error, "problem", None) or error)
    return "found a tab; indent with spaces" if "'\\t'" in problem else problem


def _of_reader(error: Any) -> str:
    character = f"byte 0x{error.character[0]:02x}" if isinstance(error.character, bytes) else f"U+{error.character:04X}"
    return f"invalid YAML: {character} at position {error.position} is not allowed; YAML is printable text in UTF-8"


class _Decimal(float):
    """A float that keeps its text: 4.10 and 4.1 are equal numbers, but different releases."""

    def __new__(cls, value: float, text: str) -> _Decimal:
        decimal = super().__new__(cls, value)
        decimal.text = text
        return decimal

    text: str

    def __repr__(self) -> str:
        return self.text


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses aliases and duplicate keys. PyYAML itself would silently take the last of two values.

    Only decimal numbers are read as integers. YAML 1.1 also reads 010 as 8 and 1:30 as 90; here such values stay texts,
    which are refused as levels.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # An alias is how a small file becomes a huge document; none is needed here.
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", None)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {str(key)[:60]!r} is duplicated or not a string", key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep)


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return _Decimal(loader.construct_yaml_float(node), node.value)


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(0|[1-9][0-9]{0,17})$"), list("-+0123456789"))
