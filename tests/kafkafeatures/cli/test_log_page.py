"""The how-to for an incident: what it shows is what the commands say of a real node's files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.kraftlog.golden import CHANGES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/how-to/read-a-metadata-log.md").read_text()
REFERENCE = (ROOT / "docs/reference/log.md").read_text()
SHOWN = re.compile(r"^\$ (kafkafeatures .*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
LEFT_OUT = "..."


def follows(shown: list[str], output: list[str]) -> bool:
    """Tell whether the shown lines are printed ones, in order, with others left out."""
    if not shown:
        return not output
    if shown[0] == LEFT_OUT:
        return any(follows(shown[1:], output[at:]) for at in range(len(output) + 1))
    return bool(output) and shown[0] == output[0].rstrip() and follows(shown[1:], output[1:])


@pytest.mark.parametrize(("command", "shown"), SHOWN.findall(PAGE), ids=lambda text: text.split("\n")[0][:60])
def test_the_how_to_shows_the_output_of_each_command_in_it(
    command: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CHANGES.parent, tmp_path / "data" / "__cluster_metadata-0")
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=3002\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "COLUMNS", "100")
    main(shlex.split(command)[1:])
    streams = capsys.readouterr()
    assert follows(shown.splitlines(), (streams.out + streams.err).splitlines())


def test_every_event_and_every_field_of_a_document_is_in_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    def names(found: object) -> set[str]:
        if isinstance(found, dict):
            return set(found) | {name for one in found.values() for name in names(one)}
        return {name for one in found for name in names(one)} if isinstance(found, list) else set()

    documented = set(re.findall(r"`([A-Za-z]+)(?:`|: )", REFERENCE))
    elsewhere = {"apiVersion", "kind", "clusterId", "name", "min", "max", "host", "port"}
    for action in ("state", "timeline", "ghosts"):
        assert main(["log", action, "-o", "json", str(CHANGES.parent)]) == Exit.DONE
        out = capsys.readouterr().out
        every = [json.loads(line) for line in out.splitlines()] if action == "timeline" else [json.loads(out)]
        for one in every:
            used = {name for name in names(one) if not name.endswith(".version")}
            assert used - elsewhere <= documented
            assert one.get("event", "End") in documented
