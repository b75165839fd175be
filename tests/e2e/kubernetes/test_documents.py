"""The schema of the CRD on a real API server: it refuses the documents that the command line refuses, and accepts those
that it accepts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from docs.make.fields_page import fields, root
from kafkafeatures.api.names import KIND
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until
from tests.kafkafeatures.api.test_document import RIGHT, WRONG, document_with
from tests.simulated.conformance import ALL, NAMESPACE, Ask
from tests.simulated.requests import Reply, Request

ONLY_BY_THE_COMMAND_LINE = (
    # The schema has no pattern for names of other objects, as Kubernetes itself has none; the operator says it.
    "expected the name of a StatefulSet in the",
    "container: invalid value ''",
    # Kubernetes takes null in a field that has a default for a field that is absent.
    "spec.workload.driver: invalid value null",
)
BY_DRIVERS = [
    ("spec.workload.driver", "Strimzi"),
    ("spec.workload.driver", "Pods"),  # there is a migration
    ("spec.workload.statefulSet", None),
    ("spec", {"cluster": {"bootstrapServers": "a:1"}, "workload": {"driver": "Pods"}}),
    ("spec", {"cluster": {"bootstrapServers": "a:1"}, "workload": {"pods": {"selector": "app=kafka"}}}),
]
"""Refused by the drivers, which say what they need (`core/roll/drivers.py`)."""
IN_JSON = [
    *(
        (path, value)
        for path, value, message in WRONG
        if value != "\ud800" and not any(one in message for one in ONLY_BY_THE_COMMAND_LINE)
    ),
    *BY_DRIVERS,
]


def create(ask: Ask, path: str, value: Any) -> Reply:
    """Have the server check a document with this value, as a dry run. As with kubectl, an unknown field is an error."""
    document = document_with(path, value)
    document["metadata"]["namespace"] = NAMESPACE
    return ask(Request("POST", ALL, {"dryRun": "All", "fieldValidation": "Strict"}, document))


def test_the_schema_refuses_the_documents_that_the_types_refuse(ask: Ask) -> None:
    taken = [(path, value) for path, value in IN_JSON if create(ask, path, value).status not in (400, 422)]
    assert taken == []


@pytest.mark.parametrize(("path", "value"), RIGHT)
def test_the_schema_accepts_values_at_their_bounds(ask: Ask, path: str, value: Any) -> None:
    reply = create(ask, path, value)
    assert reply.status == 201, reply.body


def test_the_schema_keeps_every_field_of_a_roll_and_of_its_plan(ask: Ask) -> None:
    """Revisions in a stage beside levels, and every field of a restart."""
    made = create_and_keep(ask)
    status = {
        "plan": {
            "hash": "sha256:0",
            "stages": [
                {"kind": "Roll", "from": {"broker": "a"}, "to": {"broker": "b"}},
                {"kind": "Levels", "from": {"metadata.version": 25}, "to": {"metadata.version": 30}},
            ],
        },
        "workloads": [{"name": "broker", "updateRevision": "b", "updated": 1, "total": 3}],
        "rollout": {"id": "1", "startedAt": "2026-01-02T03:04:05Z", "total": 3, "done": 1, "waitingFor": "broker 2"},
        "soakStartedAt": "2026-01-02T03:04:05Z",
        "wayBack": {"until": "2026-01-03T03:04:05Z", "how": "go back"},
    }
    reply = ask(Request("PUT", f"{ALL}/orders/status", {}, {**made, "status": status}))
    assert (reply.status, reply.body["status"]) == (200, status)


def create_and_keep(ask: Ask, phase: str = "PreMigration") -> dict[str, Any]:
    """Create a document, and return it as stored. phase: the phase of a migration that it asks for; a new document may
    ask for any.
    """
    document = document_with("spec.migration.desired", phase)
    document["metadata"]["namespace"] = NAMESPACE
    reply = ask(Request("POST", ALL, {}, document))
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.body
    return made


NEXT = {
    "None": {"PreMigration"},
    "PreMigration": {"DualWrite", "RolledBack"},
    "DualWrite": {"Finalized", "RolledBack"},
    "Finalized": {"DualWrite", "RolledBack"},
    "RolledBack": {"None", "PreMigration", "DualWrite"},
}
"""Phase of a migration to those that a document may ask for next."""


REMOVABLE = {"None", "Finalized", "RolledBack"}
"""Phases with which a migration may be taken out of a document: with the others it may be half done."""


def _document(ask: Ask, made: dict[str, Any], desired: str | None) -> dict[str, Any]:
    metadata = ask(Request("GET", f"{ALL}/orders", {})).body["metadata"]
    without = {name: value for name, value in made["spec"].items() if name != "migration"}
    migration = {} if desired is None else {"migration": {"desired": desired}}
    return {**made, "metadata": metadata, "spec": {**without, **migration}}


def with_migration(ask: Ask, made: dict[str, Any], desired: str | None) -> Reply:
    """Put the document with this phase, or with no migration."""
    return ask(Request("PUT", f"{ALL}/orders", {}, _document(ask, made, desired)))


@pytest.mark.parametrize("phase", NEXT)
def test_a_document_can_change_the_desired_phase_of_a_migration_only_by_one(ask: Ask, phase: str) -> None:
    made = create_and_keep(ask, phase)
    for other in NEXT.keys() - NEXT[phase] - {phase}:
        reply = with_migration(ask, made, other)
        assert (reply.status, "one phase at a time" in reply.body["message"]) == (422, True), (phase, other)
    for other in NEXT[phase]:
        changed = ask(Request("PUT", f"{ALL}/orders", {"dryRun": "All"}, _document(ask, made, other)))
        assert changed.status == 200, (phase, other)


@pytest.mark.parametrize("phase", NEXT)
def test_a_migration_that_was_begun_stays_in_the_document(ask: Ask, phase: str) -> None:
    made = create_and_keep(ask, phase)
    reply = with_migration(ask, made, None)
    assert reply.status == (200 if phase in REMOVABLE else 422)
    assert reply.status == 200 or "cannot be removed from the document" in reply.body["message"]


MAY_CHANGE = [
    ({"phase": "PreMigration"}, True),
    ({"phase": "Migrating"}, True),
    ({"phase": "DualWrite", "zkMigrationState": "MIGRATION"}, True),
    ({"phase": "DualWrite", "zkMigrationState": "MIGRATION", "consents": ["single-replica-topics"]}, True),
    ({"phase": "Finalizing", "zkMigrationState": "MIGRATION"}, True),  # by a release that asked single nodes
    ({"phase": "DualWrite", "zkMigrationState": "MIGRATION", "consents": ["zk-finalize"]}, False),
    ({"phase": "Finalizing", "zkMigrationState": "POST_MIGRATION"}, False),
    ({"phase": "Finalizing"}, False),
    ({"phase": "Finalized"}, False),
]
"""Migrations in a status, each with True if a document with the desired phase Finalized may still ask for another."""


@pytest.mark.parametrize(("migration", "may"), MAY_CHANGE, ids=str)
def test_the_desired_phase_finalized_can_be_changed_until_the_finalization_begins(
    ask: Ask, migration: dict[str, Any], *, may: bool
) -> None:
    """In any case the status can still be written, and the migration may be taken out of the document."""
    made = create_and_keep(ask, "Finalized")
    status = {"migration": migration}
    kept = ask(Request("PUT", f"{ALL}/orders/status", {}, {**made, "status": status}))
    assert (kept.status, kept.body["status"]) == (200, status)
    for desired in ("DualWrite", "RolledBack"):
        reply = ask(Request("PUT", f"{ALL}/orders", {"dryRun": "All"}, _document(ask, made, desired)))
        assert reply.status == (200 if may else 422), (desired, reply.body)
        assert may or "cannot be rolled back" in reply.body["message"]
    assert with_migration(ask, made, None).status == 200
    removed = {**_document(ask, made, None), "status": status}
    assert ask(Request("PUT", f"{ALL}/orders/status", {}, removed)).status == 200


def test_kubectl_changes_the_desired_phase_while_the_consent_to_finalize_is_unused(
    ask: Ask, control_plane: ControlPlane
) -> None:
    """The document is changed in each way that people and controllers use, in turn. The writes of the status in between
    are never refused, whatever the document asks for.
    """
    made = create_and_keep(ask, "Finalized")
    clean = {"apiVersion": made["apiVersion"], "kind": KIND, "metadata": {"name": "orders", "namespace": NAMESPACE}}

    def refused(desired: str, *words: str) -> str:
        document = {**clean, "spec": {**made["spec"], "migration": {"desired": desired}}}
        try:
            control_plane.kubectl(*words, "--dry-run=server", "-f", "-", input=json.dumps(document))
        except Refused as error:
            return str(error)
        return ""

    ways = (("apply",), ("apply", "--server-side", "--field-manager=git", "--force-conflicts"), ("replace",))
    # each state of the status after the one before it, and at last the first state after the last
    for number, (migration, may) in enumerate([*MAY_CHANGE, *MAY_CHANGE[:1]]):
        patch = [{"op": "add", "path": "/status", "value": {"migration": migration}}]
        target = ("orders", "-n", NAMESPACE, "--subresource=status", "--type=json")
        control_plane.kubectl("patch", "kff", *target, "-p", json.dumps(patch))
        for desired in ("DualWrite", "RolledBack"):
            answer = refused(desired, *ways[number % len(ways)])
            assert ("cannot be rolled back" in answer, answer == "") == (not may, may), (migration, desired, answer)
        assert refused("Finalized", "apply") == "", migration


def test_kubectl_explain_shows_the_descriptions_of_the_crd(ask: Ask, control_plane: ControlPlane) -> None:
    """The server publishes every one of them, and refuses none."""
    path, ours = "/openapi/v3/apis/kafkafeatures.dev/v1alpha1", dict(descriptions(root()))

    def published() -> bool:
        schemas = control_plane.read(path).get("components", {}).get("schemas", {})
        found = (one for name, one in schemas.items() if name.endswith(f".{KIND}"))
        return any(ours == {at: text for at, text in descriptions(one) if at in ours} for one in found)

    wait_until("the server publishes the descriptions", published, 60)
    explained = control_plane.kubectl("explain", "kafkafeatures.spec.rollout.nodeTimeout")
    assert ours["spec.rollout.nodeTimeout"] in " ".join(explained.split())


def descriptions(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((one.path, one.schema["description"]) for one in fields(schema) if "description" in one.schema)
