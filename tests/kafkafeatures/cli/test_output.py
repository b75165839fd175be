"""Output of commands: control characters in texts of others are replaced before they reach a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from rich.text import Text

from kafkafeatures.cli.kube.status_text import draw_status
from kafkafeatures.cli.kube.wait import Goal, judge
from kafkafeatures.cli.shell import main as command_line
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import Patient, clean_stdout, console, print_document, tell
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

EVIL = "no\x1b[2J\x1b]52;c;cm0=\x1b\\\x9b31m\u202eyes"
TAME = "no�[2J�]52;c;cm0=�\\�31m�yes"


def streams(monkeypatch: pytest.MonkeyPatch) -> tuple[io.StringIO, io.StringIO]:
    """Set stdout and stderr as commands have them. Returns the texts that reach the terminal."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", Patient.wrapping(out))
    monkeypatch.setattr(sys, "stderr", Patient.wrapping(err))
    return out, err


def test_control_characters_are_removed_from_stdout_and_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch)
    for stream in (sys.stdout, sys.stderr):
        print(EVIL, "second\n\tthird", file=stream)
    assert [one.getvalue() for one in (out, err)] == [f"{TAME} second\n\tthird\n"] * 2


def test_a_message_with_line_breaks_is_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = streams(monkeypatch)
    tell(f"{EVIL}\nready: InSync")
    assert err.getvalue() == f"{TAME} ready: InSync\n"


@pytest.mark.parametrize(
    "error", [CommandFailed(EVIL, Exit.FAILED), RuntimeError(EVIL)], ids=["an expected error", "a defect"]
)
def test_an_error_message_of_a_command_has_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _, err = streams(monkeypatch)

    def fail(_: Any) -> int:
        raise error

    monkeypatch.setattr("kafkafeatures.cli.shell.version.run", fail)
    assert command_line.main(["version"]) == Exit.FAILED
    assert TAME in err.getvalue()
    assert err.getvalue().count("\n") == 1


def test_a_status_of_another_client_is_shown_without_control_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, _ = streams(monkeypatch)
    status = statuses.stalled()
    status["features"][0]["name"] = status["blockers"][0]["message"] = EVIL
    status["blockers"][0]["remedy"] = f"{EVIL}, and more"
    for one in status["conditions"]:
        one["message"] = EVIL
    found = resource(status)
    draw_status(console(), found, NOW)
    ending = judge(found, Goal())
    assert ending is not None
    print(ending.text)
    text = out.getvalue()
    assert text.count(TAME[:18]) == 5  # without the end: a table measures the original text, and may cut the cell
    assert all(line.isprintable() for line in text.splitlines())


def test_colours_of_the_command_line_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console().print(Text(EVIL, "red"))
    print("\x1b[1mdrawn\x1b[0m", file=clean_stdout())
    assert out.getvalue() == f"\x1b[31m{TAME}\x1b[0m\n\x1b[1mdrawn\x1b[0m\n"


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_document_escapes_control_characters_and_is_read_back_unchanged(
    monkeypatch: pytest.MonkeyPatch, form: str, read: Callable[[str], Any]
) -> None:
    out, _ = streams(monkeypatch)
    document = {"message": f"{EVIL}\n\x7f拒\u2028", EVIL: ["naïve"]}
    print_document(document, form)
    text = out.getvalue()
    assert all(line.isprintable() for line in text.split("\n"))
    assert read(text) == document


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_printable_characters_of_any_language_are_not_escaped_in_documents(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    out, _ = streams(monkeypatch)
    print_document({"message": "拒绝, naïve ✓"}, form)
    assert "拒绝, naïve ✓" in out.getvalue()


def test_text_written_to_a_pipe_is_never_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console().print(" ".join(["word"] * 500), overflow="fold")
    assert capsys.readouterr().out.count("\n") == 1
