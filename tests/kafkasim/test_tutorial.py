"""Every command of the first ten minutes, typed as the page prints it, on the simulator that the page starts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.kafkafeatures.terminal import PROGRAM, session
from tests.kafkasim.commands import command
from tests.kafkasim.test_simulate import first_free_port

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"```(sh|yaml|text)\n(.*?)\n```", re.DOTALL)
FIRST = first_free_port(8)
"""Port of the first broker, in place of the page's; one for each node."""


def test_the_first_ten_minutes_go_as_the_page_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text().replace("127.0.0.1:19092", f"127.0.0.1:{FIRST}"))
    outputs = []
    (_, simulate), *steps = blocks
    with session((*PROGRAM, *shlex.split(simulate)[1:], "--port", str(FIRST))) as simulator:
        simulator.reads()
        for kind, text in steps:
            if kind == "yaml":
                (tmp_path / "levels.yaml").write_text(f"{text}\n")
            elif kind == "text":
                assert simulator.types(text) == "done\n> "
            else:
                program, *words = shlex.split(text)
                assert program == "kafkafeatures"
                words = [str(tmp_path / word) if word == "levels.yaml" else word for word in words]
                done = command(words)
                outputs.append((words[0], done.returncode, done.stdout + done.stderr))
    named, codes, texts = zip(*outputs, strict=True)
    assert named == ("describe", "plan", "unregister", "apply", "apply")
    assert codes[:4] == (0, 4, 0, 0), texts
    described, planned, unregistered, applied, drifted = texts
    assert "blocked by broker 2 (Kafka 4.0)" in described
    assert "broker 4 (a ghost)" in " ".join(described.split())
    assert "GhostRegistration" in planned
    assert "broker 4" in unregistered
    assert "metadata.version" in applied
    assert "drift" in drifted.lower()
    assert codes[4] != 0
