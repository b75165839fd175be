"""The configuration file of a run: its inputs, its output, and the use of Spark.

Called by `kafkafeatures pipeline`. It defines the fields, and the messages for wrong ones. Paths are relative to the
folder of the file, so that a run does not depend on the current folder.

    inputs: [/data/logs, "s3://bucket/logs?region=eu-central-1"]   # <cluster>/<node>/__cluster_metadata-0/*
    output: /data/tables            # or a bucket, as an input
    mode: PERMISSIVE                # or DROPMALFORMED, FAILFAST
    documents: /data/documents      # KafkaFeatures documents with their status, if there are any
    metrics: /data/pipeline.prom    # written at the end of each run
    clients:                        # evidence about clients, if there is any
      inputs: [/data/evidence]      # <cluster>/<broker>/*: request logs, reduced ones, scrapes, server logs
      releases: ["4.1"]             # whose clients are judged
      window: 35d                   # time that has to be free of removed versions; also 840h
      owners: owners.yaml           # teams of clients
    spark:
      enabled: true                 # false: on one core, without Java
      master: local[*]
      conf: {spark.driver.memory: 2g}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from featurelog import stores
from featurelog.parts import MODES, PERMISSIVE
from featurelog.run import Settings
from kafkafeatures.client_files.owners import OwnersRefused, parse_owners
from kafkafeatures.core.clients.coverage import window_length
from kafkafeatures.core.clients.senders import ClientOwner

LOCAL = "local[*]"
_NOT_A_PATH = "invalid value; expected a path, not a URI"


class ConfigError(Exception):
    """The file cannot be used; the text has the place and the problem."""


@dataclass(frozen=True, slots=True)
class Spark:
    """The use of Spark. enabled: False: a run uses one core, without Java. master, conf: as Spark takes them."""

    enabled: bool = True
    master: str = LOCAL
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clients:
    """Evidence about clients. inputs: as of `Settings`. releases: for which clients are judged. window_ms: time that
    has to be free of removed versions. owners: the first that matches a client counts.
    """

    inputs: tuple[str, ...]
    releases: tuple[str, ...]
    window_ms: int
    owners: tuple[ClientOwner, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of a run. documents: folder of KafkaFeatures documents; None: none are read.
    metrics: file that is written at the end; None: no file. clients: None: no evidence about clients is read.
    """

    settings: Settings
    spark: Spark
    documents: Path | None
    metrics: Path | None
    clients: Clients | None = None


STDIN = Path("-")
"""Path of a configuration that is read from standard input."""

FIELDS = {
    "inputs": list, "output": str, "mode": str, "documents": str, "metrics": str, "clients": dict, "spark": dict,
}  # fmt: skip
"""Types of the fields in the file."""
_CLIENTS = {"inputs": list, "releases": list, "window": str, "owners": str}
_WINDOW = "35d"
_SPARK = {"enabled": bool, "master": str, "conf": dict}
_NOT_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
"""Exceptions of the YAML parser; all but the first two come from values that do not match their tags (`!!timestamp
now`).
"""
_EXPECTED = {str: "a text", bool: "true or false", dict: "a mapping"}
_LISTS = {"inputs": "a list of folders or URIs", "releases": 'a list of releases in quotes, such as ["4.1"]'}
"""What is expected in a field: by its type, or, for a list, by its name."""


def read(path: Path) -> Config:
    """Read and check a file; `-` is standard input. Raises ConfigError."""
    source = "stdin" if path == STDIN else str(path)
    try:
        with open(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
            document = yaml.safe_load(file.read())
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    except _NOT_YAML as error:
        raise ConfigError(f"{source}: {_problem_of(error)}") from None
    settings_document = _checked(document, FIELDS, f"{source}: ")
    for name in ("inputs", "output"):
        if not settings_document.get(name):
            raise ConfigError(f"{source}: {name}: required field is missing")
    mode = settings_document.get("mode", PERMISSIVE)
    inputs = _places(settings_document["inputs"], f"{source}: inputs")
    _places([settings_document["output"]], f"{source}: output")
    for name in ("documents", "metrics"):
        if stores.is_uri(settings_document.get(name, "")):
            raise ConfigError(f"{source}: {name}: {_NOT_A_PATH}")
    if mode not in MODES:
        raise ConfigError(f"{source}: mode: invalid value {mode!r}; expected {', '.join(MODES)}")
    spark = _checked(settings_document.get("spark", {}), _SPARK, f"{source}: spark.")
    conf = {str(name): _text(value) for name, value in spark.get("conf", {}).items()}

    def path_of(name: str) -> Path | None:
        return path.parent / Path(settings_document[name]).expanduser() if name in settings_document else None

    def place_of(uri: str) -> str:
        return uri if stores.is_uri(uri) else str(path.parent / Path(uri).expanduser())

    output = place_of(settings_document["output"])
    settings = Settings(
        tuple(map(place_of, inputs)), output if stores.is_uri(output) else str(Path(output).absolute()), mode
    )
    clients = None
    if "clients" in settings_document:
        clients_document = _checked(settings_document["clients"], _CLIENTS, f"{source}: clients.")
        clients = _clients(clients_document, f"{source}: clients.", path.parent)
        clients = replace(clients, inputs=tuple(map(place_of, clients.inputs)))
    return Config(settings, Spark(**{**spark, "conf": conf}), path_of("documents"), path_of("metrics"), clients)


def _places(uris: list[Any], prefix: str) -> list[str]:
    """The folders or URIs, if they can be used. prefix: begin of each message. Raises ConfigError."""
    if not all(isinstance(uri, str) and uri for uri in uris):
        raise ConfigError(f"{prefix}: invalid value; expected {_LISTS['inputs']}")
    try:
        for uri in uris:
            stores.check(uri)
    except stores.StoreError as error:
        raise ConfigError(f"{prefix}: {error}") from None
    return uris


def _clients(document: Mapping[str, Any], prefix: str, folder: Path) -> Clients:
    """The field `clients`. folder: of the configuration. Raises ConfigError."""
    for name in ("inputs", "releases"):
        if not document.get(name):
            raise ConfigError(f"{prefix}{name}: required field is missing")
    releases, text = document["releases"], document.get("window", _WINDOW)
    if not all(isinstance(release, str) and re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", release) for release in releases):
        raise ConfigError(f"{prefix}releases: invalid value; expected {_LISTS['releases']}")
    window_ms = window_length(text)
    if window_ms is None:
        raise ConfigError(f"{prefix}window: invalid value {text[:60]!r}; expected days or hours, such as 35d")
    owners: Sequence[ClientOwner] = ()
    if "owners" in document:
        path = folder / Path(document["owners"]).expanduser()
        try:
            owners = parse_owners(path.read_bytes())
        except (OSError, OwnersRefused) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    inputs = _places(document["inputs"], f"{prefix}inputs")
    return Clients(tuple(inputs), tuple(dict.fromkeys(releases)), window_ms, tuple(owners))


def documents(folder: Path) -> Iterator[object]:
    """Documents in the YAML and JSON files of a folder. Raises ConfigError."""
    try:
        paths = sorted(file for file in folder.iterdir() if file.suffix in {".yaml", ".yml", ".json"})
        for path in paths:
            try:
                yield from (document for document in yaml.safe_load_all(path.read_bytes()) if document is not None)
            except _NOT_YAML as error:
                raise ConfigError(f"{path}: {_problem_of(error)}") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None


def _problem_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, yaml.YAMLError):
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    else:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "a value does not match its tag"
    return f"{f'line {mark.line + 1}: ' if mark else ''}invalid YAML: {problem}"


def _checked(document: Any, fields: Mapping[str, type], prefix: str) -> dict[str, Any]:
    """The document, if it has only these fields, with values of their types. prefix: begin of each message. Raises
    ConfigError.
    """
    if not isinstance(document, dict):
        raise ConfigError(f"{prefix.rstrip('. ').rstrip(':')}: expected a mapping of fields: {', '.join(fields)}")
    for name, value in document.items():
        if name not in fields:
            similar = get_close_matches(str(name), fields, n=1)
            meant = f"did you mean {similar[0]!r}? " if similar else ""
            raise ConfigError(f"{prefix}{name}: unknown field; {meant}valid fields: {', '.join(fields)}")
        if not isinstance(value, fields[name]):
            expected = _LISTS[name] if fields[name] is list else _EXPECTED[fields[name]]
            raise ConfigError(f"{prefix}{name}: invalid value {value!r}; expected {expected}")
    return document


def _text(value: object) -> str:
    """A setting of Spark, which writes booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
