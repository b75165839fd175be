"""A report has nothing to black out: no field of a document can hold a secret, and nothing else is taken over."""

from __future__ import annotations

import json

from kafkafeatures.cli.report import without_status
from tests.contract.test_crd import FIELDS
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

SECRET = "sekret-9f3c"
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


def test_of_secrets_a_document_has_names_and_keys_only() -> None:
    """Every field whose name speaks of a secret is a reference, or the name of a key in one."""
    told = ("secret", "password", "token", "private", "credential", "jaas", "tls.key", "certificate")
    speaking = {path for path in FIELDS if any(word in path.rsplit(".", 1)[-1].lower() for word in told)}
    references = {path for path in FIELDS if path.endswith(("SecretRef", ".secretRef"))}
    assert speaking == references | {f"{path}.passwordKey" for path in references if f"{path}.passwordKey" in FIELDS}
    for reference in references:
        inside = {path.removeprefix(f"{reference}.") for path in FIELDS if path.startswith(f"{reference}.")}
        assert inside <= {"name", "key", "certKey", "keyKey", "usernameKey", "passwordKey"}


def test_annotations_of_others_are_named_and_not_shown() -> None:
    annotations = {KUBECTL: SECRET, "a.b/c": SECRET, "kafkafeatures.dev/pause": "true"}
    managed = [{"manager": SECRET}]
    found = without_status(resource(statuses.in_sync(), annotations=annotations, managedFields=managed))
    assert SECRET not in json.dumps(found)
    assert found["metadata"]["annotations"] == {"kafkafeatures.dev/pause": "true"}
    assert found["otherAnnotations"] == ["a.b/c", KUBECTL]
    assert found["metadata"]["uid"] == statuses.UID
