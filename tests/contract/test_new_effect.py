"""A new kind of step is one room, one line of registration and one arm: mypy names the arm where it is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = Path("operator/kafkafeatures/core/kinds.py")
ROOM = Path("operator/kafkafeatures/core/toy/step.py")
TOY = '''"""A step that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_text
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Via
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import Looks, Open
from kafkafeatures.core.engine.steps import InFlight, Rejection, Step, sent_as
from kafkafeatures.core.facts.observation import Observation


class Toy(Struct, frozen=True):
    """Changes nothing."""

    kind: ClassVar[str] = "Toy"
    recorded_as: ClassVar[str] = "Toy"
    counts: ClassVar[bool] = False
    is_followed: ClassVar[bool] = False
    settled_by: ClassVar[str] = "it was looked at twice"
    consents_of_plan: ClassVar[frozenset[str]] = frozenset()
    consent: ClassVar[str] = ""
    revision: ClassVar[str] = ""
    is_decided_again: ClassVar[bool] = False

    target: str

    def __str__(self) -> str:
        return f"play with {self.target}"

    @property
    def request(self) -> str:
        return f"Toy {self.target}"

    @property
    def in_progress(self) -> tuple[Reason, str]:
        return Reason.VERIFYING, str(self)

    def is_asked_for_by(self, earlier: Step) -> bool:
        return False

    def begun(self, at: Stamp, via: Via, seen: Observation, *, corrects_drift: bool = False) -> ToyInFlight:
        return ToyInFlight(self, at, via)

    def rejection(self, code: int, message: str) -> Rejection:
        return Rejection(Reason.CONTROLLER_REJECTED, message, recorded=message)

    def to_intent(self) -> Mapping[str, Any]:
        return {"target": self.target}

    @classmethod
    def read(cls, intent: Intent) -> ToyInFlight:
        return ToyInFlight(cls(read_text(intent.unknown.get("target"))), **sent_as(intent))

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        return EventRecord("PlayedWith", "Play", note_of(ended.action, ended.message))


class ToyInFlight(InFlight, frozen=True):
    """One that is not settled."""

    step: Toy

    def settle(self, looks: Looks) -> Result | Open:
        return Result.APPLIED
'''


def test_of_a_new_kind_that_is_registered_mypy_names_the_one_arm_that_is_missing(tmp_path: Path) -> None:
    for name in ("operator", ".mypy_cache"):  # with the cache only what the class touches is checked again
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ROOM).parent.mkdir()
    (tmp_path / ROOM).with_name("__init__.py").write_text('"""The toy."""\n')
    (tmp_path / ROOM).write_text(TOY)
    text = (tmp_path / KINDS).read_text()
    registered = text.replace(
        "\nKnownStep = UpdateFeature | RestartNode\n", "\nKnownStep = UpdateFeature | RestartNode | Toy\n"
    )
    registered = registered.replace(
        "import RestartNode\n", "import RestartNode\nfrom kafkafeatures.core.toy.step import Toy\n"
    )
    assert registered.count("Toy") == 2
    (tmp_path / KINDS).write_text(registered)
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):\d+: error: (.*)$", done.stdout, re.MULTILINE)
    assert [file for file, _ in found] == ["operator/kafkafeatures/reconcile/act.py"], done.stdout
    assert "assert_never" in found[0][1]
