"""A report has nothing to black out: no field of a document can hold a secret, and nothing else is taken over."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.kube import report
from kafkafeatures.cli.kube.report import without_status
from kafkafeatures.cli.kube.report_operator import MOST_COPIED, lines_about, operator_of
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from tests.contract.test_crd import FIELDS
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

SECRET = "sekret-9f3c"
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


def test_a_document_refers_to_secrets_by_name_and_key_only() -> None:
    """Each field with a name such as password is a reference to a Secret, or the name of a key in it."""
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

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(
    ("words", "begins"), [("", "apiVersion: "), ("-o -", "apiVersion: "), ("--html -", "<!doctype html>")]
)
def test_a_report_goes_to_standard_output_for_the_path_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "connected", lambda _: nullcontext(Kube()))
    assert main(["report", "orders", *words.split()]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(begins)
    assert shown.err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_report_names_foreign_annotations_without_their_values() -> None:
    annotations = {KUBECTL: SECRET, "a.b/c": SECRET, "kafkafeatures.dev/pause": "true"}
    managed = [{"manager": SECRET}]
    found = without_status(resource(statuses.in_sync(), annotations=annotations, managedFields=managed))
    assert SECRET not in json.dumps(found)
    assert found["metadata"]["annotations"] == {"kafkafeatures.dev/pause": "true"}
    assert found["otherAnnotations"] == ["a.b/c", KUBECTL]
    assert found["metadata"]["uid"] == statuses.UID


# --- the operator ---


ABOUT = '{"timestamp": "t", "severity": "INFO", "message": "raised", "namespace": "kafka", "resource": "orders"}'
OTHERS = (
    '{"message": "kafka/orders", "namespace": "kafka", "resource": "payments"}',
    '{"message": "raised", "namespace": "elsewhere", "resource": "orders"}',
    '{"message": "of all"}',
    "{not json [kafka/orders]",
    "2026-01-02 INFO raised [kafka/orders-2]",
    "",
)


def test_a_report_has_only_the_latest_log_lines_about_the_resource() -> None:
    text = "2026-01-02 INFO raised [kafka/orders]"
    assert lines_about("kafka", "orders", "\n".join((*OTHERS, ABOUT, *OTHERS, text))) == [ABOUT, text]
    assert len(lines_about("kafka", "orders", f"{ABOUT}\n" * (MOST_COPIED + 1))) == MOST_COPIED


class OperatorServer:
    """An API server with a Deployment and a log, and without the pod, or without a right."""

    def __init__(self, *, pod: bool = True, refuses: bool = False) -> None:
        self._pod, self._refuses = pod, refuses

    def deployment(self, namespace: str, name: str) -> dict[str, Any]:
        if self._refuses:
            raise CommandFailed("not authorized", Exit.BLOCKED)
        assert (namespace, name) == ("operator", "kff")
        return {"metadata": {"generation": 3}, "status": {"readyReplicas": 1}}

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        return {"status": {"phase": "Running", "podIP": "10.0.0.1"}} if self._pod else None

    def log(self, namespace: str, pod: str, lines: int) -> str:
        return "\n".join((ABOUT, *OTHERS))


def report_of_operator(kube: OperatorServer, **operator: str) -> tuple[Any, list[str]]:
    gaps: list[str] = []

    def tried(what: str, ask: Any) -> Any:
        try:
            return ask()
        except CommandFailed as failed:
            gaps.append(f"{what}: {failed}")
            return None

    written = resource({**statuses.in_sync(), "operator": operator} if operator else statuses.in_sync())
    return operator_of(kube, written, tried), gaps  # type: ignore[arg-type]  # as far as it is asked


IN_POD = {"namespace": "operator", "name": "kff", "instance": "kff-0"}


def test_a_report_has_the_deployment_the_pod_and_the_log_of_the_operator_that_wrote_the_status() -> None:
    found, gaps = report_of_operator(OperatorServer(), **IN_POD)
    assert gaps == []
    assert found["deployment"] == {"generation": 3, "readyReplicas": 1}
    assert (found["pod"]["phase"], "podIP" in found["pod"], found["log"]) == ("Running", False, [ABOUT])


def test_a_report_lists_objects_of_the_operator_that_could_not_be_read() -> None:
    found, gaps = report_of_operator(OperatorServer(pod=False, refuses=True), **IN_POD)
    assert found == IN_POD
    assert gaps == ["the operator's Deployment: not authorized", "the operator's pod: it does not exist"]


def test_a_report_has_no_pod_if_the_operator_is_unknown_or_outside_of_kubernetes() -> None:
    assert report_of_operator(OperatorServer(), name="kff", instance="laptop-3") == (
        {"name": "kff", "instance": "laptop-3"},
        [],
    )
    assert report_of_operator(OperatorServer()) == (None, [])
