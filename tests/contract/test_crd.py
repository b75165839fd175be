"""The schema in crds/, the types in api/, the samples and what is really written must say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
import yaml
from msgspec import StructMeta

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.records import StatusRecord, json_name, stamp
from kafkafeatures.api.schema import Text, as_json, fields_of
from kafkafeatures.api.spec import Spec
from kafkafeatures.api.status import EMPTY, Status, Via
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ControllerEpoch
from kafkafeatures.core.levels.soak import soak_of, with_soak
from kafkafeatures.core.levels.update_feature import ChangeInFlight, UpdateFeature
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes, DeletionInFlight, ZnodeLife
from kafkafeatures.core.report.status import status_of_unreachable
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.core.roll.drivers import DRIVERS
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.deciding import changes_in, decide, facts_of, propose, status_of
from tests.kafkafeatures.documents import read_file
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, node, observation

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "crds" / "samples").glob("*.yaml"))
CRD = yaml.safe_load((ROOT / "crds" / "kafkafeatures.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


# --- the spec: schema and types ---


def schema_of(hint: Any) -> dict[str, Any]:
    """The schema of the values that a type of `api/spec.py` allows."""
    allowed: Any = None
    if get_origin(hint) is Annotated:
        hint, allowed = get_args(hint)
    if get_origin(hint) in (Union, UnionType) and not callable(allowed):
        return schema_of(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": get_args(hint)}
    if get_origin(hint) is tuple:
        return {"type": "array", "maxItems": allowed.items, "items": schema_of(get_args(hint)[0])}
    if isinstance(hint, StructMeta):
        known = fields_of(cast("type", hint))
        properties = {name: {**schema_of(one.type), "default": as_json(one.default)} for name, one in known.items()}
        required = [name for name, one in known.items() if one.required]
        return {"type": "object", "properties": properties, "required": required}
    if isinstance(allowed, Text):
        limits = {"maxLength": allowed.longest, "pattern": allowed.pattern}
        return {"type": "string", **{name: limit for name, limit in limits.items() if limit}}
    return {"type": {str: "string", bool: "boolean", int: "integer"}.get(hint)}


def flat(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    if schema.get("type") == "array":
        yield from flat(schema["items"], f"{path}[]")
    for name, inner in schema.get("properties", {}).items():
        yield from flat(inner, f"{path}.{name}")


TYPES = dict(flat(schema_of(Spec)))
TYPES[".workload.driver"]["enum"] = [one.name for one in DRIVERS]
FIELDS = dict(flat(SCHEMA["spec"]))


def test_schema_and_types_have_the_same_fields() -> None:
    assert set(FIELDS) == set(TYPES)


@pytest.mark.parametrize("path", FIELDS)
def test_schema_and_types_allow_the_same_values(path: str) -> None:
    in_schema, in_types = FIELDS[path], TYPES[path]
    if in_schema.get("x-kubernetes-int-or-string"):  # it has no `type`: its values are read by a function
        return
    assert in_schema.get("type") == in_types.get("type")
    assert set(in_schema.get("enum", ())) == set(in_types.get("enum", ()))
    assert set(in_schema.get("required", ())) == set(in_types.get("required", ()))
    for limit in ("maxItems", "maxLength", "pattern"):
        if limit in in_types:
            assert in_schema.get(limit, in_types[limit]) == in_types[limit], limit
    if "default" in in_schema:
        assert in_schema["default"] == in_types["default"]


# --- samples and documents ---


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_read_by_the_types_and_fits_the_schema(path: Path) -> None:
    wanted_of(read_file(path))
    assert list(misfits(yaml.safe_load(path.read_text())["spec"], SCHEMA["spec"])) == []


def misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths that the API server would refuse or prune, by the parts of OpenAPI that our schema uses."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: neither a number nor a text"
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if not isinstance(value, kinds[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", 10**9):
        yield f"{path}: longer than {schema['maxLength']}"
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", 10**9):
            yield f"{path}: more than {schema['maxItems']}"
        for index, one in enumerate(value):
            yield from misfits(one, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name}: required"
        for name, one in value.items():
            known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if known is not None:
                yield from misfits(one, known, f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}: no such field"


# --- statuses ---

LEVELS = {"metadata.version": 27, "group.version": 1}
CROWD = [node(i, said=answer(OLD)) for i in range(100, 190)]
GHOST = node(3, state=NodeState.GHOST, said=SILENT, written=OLD)
WORLDS: dict[str, tuple[DesiredState, Observation, Memory, Any]] = {
    "act": (DesiredState(LEVELS), observation(), Memory(), DryRunAccepted()),
    "done": (DesiredState({"metadata.version": 21}), observation(), Memory(), None),
    "nothing": (DesiredState({}), observation(), Memory(), None),
    "blocked": (DesiredState(LEVELS), observation(node(3001), *CROWD, GHOST), Memory(), None),
    "refused": (DesiredState(LEVELS), observation(), Memory(), DryRunRejected(95, "no")),
    "downgrade": (DesiredState({"metadata.version": 20}), observation(), Memory(), None),
    "approval": (DesiredState({}, LEVELS), observation(), Memory(), DryRunAccepted()),
    "observed": (DesiredState(LEVELS, mode=Mode.OBSERVE), observation(), Memory(), None),
    "suspended": (DesiredState(LEVELS, suspend=True), observation(), Memory(), None),
    "soaking": (DesiredState(LEVELS, finalize_after=timedelta(hours=1)), observation(), Memory(), DryRunAccepted()),
    "drift": (
        DesiredState(LEVELS), observation(levels={"metadata.version": 27}), Memory(reached=LEVELS), DryRunAccepted()
    ),
    "unknown": (DesiredState(LEVELS), observation(levels=SILENT), Memory(), None),
    "partly": (DesiredState(LEVELS), observation(gaps=(SILENT,)), Memory(), DryRunAccepted()),
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_every_status_fits_the_schema(name: str) -> None:
    wanted, seen, memory, verdict = WORLDS[name]
    proposal = propose(wanted, seen, memory)
    soak = soak_of(facts_of(wanted, seen, now=NOW), changes_in(proposal))
    decision = decide(wanted, seen, memory, verdict=verdict, soak=soak)
    status = status_of(
        decision, seen, proposal, generation=3, previous=with_soak(EMPTY, soak), version="0.1.0", now=NOW
    )
    assert list(misfits(status.as_json(), SCHEMA["status"])) == []


def written(kind: type[StatusRecord], path: str = "") -> Iterator[str]:
    """Every field that this release may write."""
    for attribute, hint in get_type_hints(kind).items():
        if attribute in ("unknown", "JSON_NAMES", "KEY"):
            continue
        name = f"{path}.{kind.JSON_NAMES.get(attribute) or json_name(attribute)}"
        yield name
        for inner in (hint, *get_args(hint)):
            if isinstance(inner, type) and issubclass(inner, StatusRecord):
                yield from written(inner, f"{name}[]" if get_origin(hint) is tuple else name)


def test_the_schema_keeps_every_field_of_a_status() -> None:
    """The API server drops fields that the schema lacks; without its intent, no change could be sent."""
    assert set(written(Status)) - {path for path, _ in flat(SCHEMA["status"])} == set()


def test_the_schema_keeps_every_field_of_an_intent() -> None:
    intents = SCHEMA["status"]["properties"]["intents"]["items"]
    restart = RestartNode(
        1, "broker 1", "broker-1", "uid", "a", "b", 7, "incarnation", 2, frozenset({"a1b2c3d4"}),
        by="annotation", czxid=90, consent="quorum-of-one",
    )  # fmt: skip
    now = stamp(NOW)
    restarting = RestartInFlight(
        restart, now, Via.API_SERVER, accepted=True, stable_since=now, unwanted_since=now, stopping_since=now
    )
    change = UpdateFeature("group.version", 0, 1)
    changing = ChangeInFlight(change, now, Via.BROKER, accepted=True, offset=1, corrects_drift=True)
    life = ZnodeLife(czxid=40, version=3)
    deletion = DeleteZnodes(
        "id", ControllerEpoch(3, 9), migration=life, controller=life, raise_to=4, znode_content="{}"
    )
    for sent in (restarting, changing, DeletionInFlight(deletion, now, Via.ZOOKEEPER, accepted=True)):
        assert set(sent.to_intent().as_json()) - set(intents["properties"]) == set()
        assert list(misfits(sent.to_intent().as_json(), intents)) == []


def test_the_status_of_an_unreachable_cluster_fits_the_schema() -> None:
    failure = Failure(FailureKind.TLS, "h:1", "x" * 3000)
    status = status_of_unreachable(failure, generation=1, previous=EMPTY, at=NOW)
    assert list(misfits(status.as_json(), SCHEMA["status"])) == []


# --- names ---


def test_every_name_of_the_status_is_valid_in_kubernetes() -> None:
    conditions = SCHEMA["status"]["properties"]["conditions"]["items"]["properties"]
    assert all(reason.value.isalpha() for reason in Reason)
    assert all(len(kind.value) <= conditions["type"]["maxLength"] for kind in Condition)
    kind = SCHEMA["status"]["properties"]["blockers"]["items"]["properties"]["kind"]
    assert all(len(one.value) <= kind["maxLength"] for one in BlockerKind)


def test_an_older_schema_accepts_every_value_of_a_status() -> None:
    """Only the words of Kubernetes' own conditions are an enumeration, because they never change."""
    closed = {path for path, schema in flat(SCHEMA["status"]) if "enum" in schema}
    assert closed == {".conditions[].status"}
