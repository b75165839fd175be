"""`approve`, if the document approves a plan as well; tests/e2e tests the command with a real API server."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kafkafeatures.api.names import APPROVE
from kafkafeatures.cli.kube import approve
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.engine.plan import HASH_SHOWN
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

STATUS = statuses.waiting_for_approval()
PLAN: str = STATUS["plan"]["hash"]
ANOTHER = "sha256:" + "1" * 64


class Kube:
    """An API server with one resource. `written`: the annotations that were set."""

    def __init__(self, stored: KubeResource) -> None:
        self.stored, self.written = stored, list[Mapping[str, str]]()

    def resource(self, name: str) -> KubeResource:
        return self.stored

    def annotate(self, name: str, annotations: Mapping[str, str], *, version: str) -> None:
        self.written.append(annotations)


def approved(*, document: str = "", annotation: str = "") -> KubeResource:
    """A resource whose plan is PLAN. `document`, `annotation`: the plans that these approve."""
    annotations = {APPROVE: annotation} if annotation else {}
    return resource(STATUS, annotations=annotations, spec={"approval": {"planHash": document}})


class Terminal(io.StringIO):
    """A stdin or stderr that is a terminal, or a stdout that is not."""

    def __init__(self, text: str = "", *, is_terminal: bool = True) -> None:
        super().__init__(text)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def run(stored: KubeResource, monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[int, Kube]:
    """Exit code of `approve`, and the API server after it."""
    kube = Kube(stored)

    @contextmanager
    def connected(arguments: object) -> Iterator[Kube]:
        yield kube

    monkeypatch.setattr(approve, "connected", connected)
    return main(["approve", "orders", *flags]), kube


@pytest.mark.parametrize("annotation", ["", PLAN], ids=["no annotation", "an annotation approves the plan"])
def test_approve_refuses_if_the_document_approves_another_plan(
    annotation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, kube = run(approved(document=ANOTHER, annotation=annotation), monkeypatch, "--yes")
    assert code == 4  # Exit.BLOCKED
    assert "spec.approval.planHash of kafka/orders approves another plan, sha256:1111" in capsys.readouterr().err
    assert not kube.written


def test_approve_writes_nothing_if_the_document_already_approves_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, kube = run(approved(document=PLAN[:20]), monkeypatch, "--yes")  # "sha256:" and 13 digits are enough
    assert code == 0
    assert "is already approved" in capsys.readouterr().out
    assert not kube.written


def test_an_annotation_for_an_older_plan_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    code, kube = run(approved(annotation=ANOTHER), monkeypatch, "--yes")
    assert code == 0
    assert kube.written == [{APPROVE: PLAN}]


@pytest.mark.parametrize(("line", "code"), [("y\n", 0), ("\n", 4)])
def test_the_plan_is_shown_where_the_question_is_asked_although_stdout_is_a_file(
    line: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, file = Terminal(), Terminal(is_terminal=False)
    for name, stream in (("stdin", Terminal(line)), ("stdout", file), ("stderr", screen)):
        monkeypatch.setattr(sys, name, stream)
    assert run(approved(), monkeypatch)[0] == code
    assert screen.getvalue().index(f"Plan {PLAN[:HASH_SHOWN]}") < screen.getvalue().index("Approve this plan? [y/N] ")
    assert file.getvalue() == ("" if code else f"plan {PLAN[:HASH_SHOWN]} of kafka/orders is approved\n")


@pytest.mark.parametrize("hidden", ["stdin", "stderr"])
def test_nothing_is_approved_if_the_question_cannot_be_read_or_answered(
    hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {name: Terminal("y\n", is_terminal=name != hidden) for name in ("stdin", "stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    code, kube = run(approved(), monkeypatch)
    assert (code, kube.written) == (3, [])
    assert "not a terminal; use --plan HASH or --yes" in streams["stderr"].getvalue()


@pytest.mark.parametrize(
    ("document", "annotation", "expected"),
    [
        ("", "", False),
        (PLAN, "", True),
        ("", PLAN, True),
        (PLAN, PLAN[:20], True),
        (ANOTHER, "", False),
        (ANOTHER, PLAN, False),
        (PLAN, ANOTHER, False),
    ],
    ids=[
        "no approval", "by the document", "by the annotation", "by both, one of them shortened",
        "another plan by the document", "the annotation, while the document names another plan",
        "the document, while the annotation names another plan",
    ],
)  # fmt: skip
def test_a_resource_is_approved_only_by_the_hash_of_its_current_plan(
    document: str, annotation: str, expected: bool
) -> None:
    assert approved(document=document, annotation=annotation).is_approved is expected
