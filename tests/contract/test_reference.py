"""The reference is made of the code, and complete."""

from __future__ import annotations

import shlex

import pytest

from docs.make.reference import PAGES, ROOT
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.cli.shell.commands import COMMANDS
from kafkafeatures.cli.shell.examples import EXAMPLES
from kafkafeatures.cli.shell.main import main


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_generated_from_the_code(name: str) -> None:
    assert (ROOT / name).read_text() == PAGES[name](), "run: make docs"


def test_the_row_of_a_reason_has_conditions_and_a_meaning() -> None:
    assert [reason for reason in Reason if not (reason.conditions and reason.meaning)] == []


def test_a_kind_of_blocker_has_a_reason_that_requires_action_or_resolves_automatically() -> None:
    assert [kind for kind in BlockerKind if not kind.reason.outcome] == []


def test_each_command_has_a_page_in_the_navigation_of_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    for name in COMMANDS:
        assert f"docs/reference/commands/{name}.md" in PAGES
        assert f"    - {name}: reference/commands/{name}.md\n" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_two_examples_which_its_parser_takes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    for _, words in EXAMPLES[command]:
        assert f"  kafkafeatures {words}\n" in shown
        assert main([*shlex.split(words.partition(" > ")[0]), "--help"]) == 0, words
