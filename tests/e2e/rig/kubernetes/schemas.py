"""Manifests checked by kubeconform, without an API server: against the schemas that Kubernetes and others publish.

    schemas = Schemas(tmp_path, ["1.29.6", "1.37.2"])
    schemas.add_crds(path)
    schemas.check(text, "1.29.6").returncode

Kubernetes publishes an OpenAPI document in its Go module, and operators their CRDs in theirs; kubeconform wants a JSON
schema of each kind in a file. Made here: strict, so that a field that a schema does not have is an error, where the API
server would drop it in silence. Nulls are errors too, although an API server takes them for absent.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.rig.kubernetes.binaries import binary, build, module

Schema = dict[str, Any]

_OF_CRDS = "crds"
_FILE = "{group}/{kind}_{version}.json"
_TEMPLATE = _FILE.format(group="{{ .Group }}", kind="{{ .ResourceKind }}", version="{{ .ResourceAPIVersion }}")
_REFERENCE = "#/definitions/"
_MACHINERY = "io.k8s.apimachinery.pkg"
_SEVERAL_TYPES: dict[str, Schema] = {
    f"{_MACHINERY}.api.resource.Quantity": {"type": ["string", "number"]},
    f"{_MACHINERY}.util.intstr.IntOrString": {"type": ["string", "integer"]},
}
"""OpenAPI of this version has one type for each; these are said to be strings."""


class Schemas:
    """The schemas of all kinds of some releases of Kubernetes, and of kinds that CRDs bring, in a folder."""

    def __init__(self, folder: Path, kubernetes: Iterable[str]) -> None:
        build(["kubeconform"])
        self._folder = folder
        for version in kubernetes:
            published = module("k8s.io/kubernetes", version) / "api" / "openapi-spec" / "swagger.json"
            _write(folder / f"v{version}", _of_definitions(json.loads(published.read_text())["definitions"]))

    def add_crds(self, *crds: Path) -> None:
        for path in crds:
            _write(self._folder / _OF_CRDS, _of_crd(yaml.load(path.read_text(), yaml.CSafeLoader)))  # some have 850 kB

    def check(self, manifests: str, kubernetes: str) -> subprocess.CompletedProcess[str]:
        """What kubeconform says of them, for one of the releases."""
        places = [self._folder / name / _TEMPLATE for name in ("{{ .NormalizedKubernetesVersion }}", _OF_CRDS)]
        locations = [f"-schema-location={one}" for one in places]
        options = ["-strict", "-summary", f"-kubernetes-version={kubernetes}", *locations]
        command = [str(binary("kubeconform")), *options, "-"]
        return subprocess.run(command, input=manifests, capture_output=True, text=True, check=False, timeout=60)


def _write(folder: Path, found: Iterable[tuple[str, str, str, Schema]]) -> None:
    for group, version, kind, schema in found:
        # Kinds of the core have no group; kubeconform takes their version for one.
        path = folder / _FILE.format(group=group or version, kind=kind.lower(), version=version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema))


def _of_crd(crd: dict[str, Any]) -> Iterator[tuple[str, str, str, Schema]]:
    spec = crd["spec"]
    for version in spec["versions"]:
        yield spec["group"], version["name"], spec["names"]["kind"], _strict(version["schema"]["openAPIV3Schema"])


def _of_definitions(definitions: dict[str, Schema]) -> Iterator[tuple[str, str, str, Schema]]:
    """The schema of each kind, with all definitions that it leads to."""
    strict = {name: _strict(one) for name, one in definitions.items()} | _SEVERAL_TYPES
    for name, one in definitions.items():
        for kind in one.get("x-kubernetes-group-version-kind", ()):
            reached = {name}
            new = reached
            while new:
                new = {other for each in new for other in _references(strict[each])} - reached
                reached |= new
            schema = {"$ref": _REFERENCE + name, "definitions": {each: strict[each] for each in sorted(reached)}}
            yield kind["group"], kind["version"], kind["kind"], schema


def _strict(schema: Schema) -> Schema:
    """Make a field that the schema does not name an error; leave out its texts.

    Schemas below `anyOf` and the like stay as they are: there, each names some of the fields.
    """
    made = {name: value for name, value in schema.items() if name not in ("description", "default")}
    if "properties" in made:
        made["properties"] = {name: _strict(one) for name, one in made["properties"].items()}
        if not made.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = _strict(made[name])
    return made


def _references(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(_REFERENCE)
    for one in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(one, dict):
            yield from _references(one)
