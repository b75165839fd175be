"""A report has nothing to black out: no field of a document can hold a secret, and nothing else is taken over."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.kube import report
from kafkafeatures.cli.kube.report import without_status
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.main import main
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


class Kube:
    """An API server with one resource, and no event."""

    def resource(self, name: str) -> KubeResource:
        return resource(statuses.in_sync())

    def version(self) -> str:
        return "v1.34.0"

    def events(self, name: str) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(
    ("words", "begins"), [("", "apiVersion: "), ("-o -", "apiVersion: "), ("--html -", "<!doctype html>")]
)
def test_a_dash_is_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "connected", lambda _: nullcontext(Kube()))
    assert main(["report", "orders", *words.split()]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(begins)
    assert shown.err == ""
    assert list(tmp_path.iterdir()) == []


def test_annotations_of_others_are_named_and_not_shown() -> None:
    annotations = {KUBECTL: SECRET, "a.b/c": SECRET, "kafkafeatures.dev/pause": "true"}
    managed = [{"manager": SECRET}]
    found = without_status(resource(statuses.in_sync(), annotations=annotations, managedFields=managed))
    assert SECRET not in json.dumps(found)
    assert found["metadata"]["annotations"] == {"kafkafeatures.dev/pause": "true"}
    assert found["otherAnnotations"] == ["a.b/c", KUBECTL]
    assert found["metadata"]["uid"] == statuses.UID
