"""A new kind of effect is one class and one arm: mypy names every other place, and there is only one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

from kafkafeatures.core.engine.steps import _STEPS, Step

ROOT = Path(__file__).resolve().parents[2]
STEPS = Path("operator/kafkafeatures/core/engine/steps.py")
TOY = '''
class Toy(Struct, frozen=True):
    """Changes nothing."""

    kind: ClassVar[str] = "Toy"

    target: str
    consent: str = ""

    @property
    def request(self) -> str:
        return self.target

    @property
    def in_progress(self) -> tuple[Reason, str]:
        return Reason.VERIFYING, self.target

    def reverted_in(self, features: tuple[FeatureStatus, ...]) -> tuple[FeatureStatus, ...]:
        return features

    def is_meant_by(self, intent: Intent) -> bool:
        return intent.kind == self.kind

    def to_intent(self) -> dict[str, Any]:
        return {"target": self.target}

    @classmethod
    def from_intent(cls, fields: Mapping[str, Any]) -> Toy:
        return cls(str(fields.get("target")))

    def settle(self, before: Observation, after: Observation, sent: Sent) -> Result | Open:
        return Result.APPLIED


Step = UpdateFeature | RestartNode | Toy
'''


def test_of_a_new_effect_in_the_union_mypy_names_the_one_arm_that_is_missing(tmp_path: Path) -> None:
    for name in ("operator", ".mypy_cache"):  # with the cache only what the class touches is checked again
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    text = (tmp_path / STEPS).read_text()
    changed = text.replace("\nStep = UpdateFeature | RestartNode\n", TOY)
    changed = changed.replace("(UpdateFeature, RestartNode)", "(UpdateFeature, RestartNode, Toy)")
    assert changed.count("Toy") == TOY.count("Toy") + 1
    (tmp_path / STEPS).write_text(changed)
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):\d+: error: (.*)$", done.stdout, re.MULTILINE)
    assert [file for file, _ in found] == ["operator/kafkafeatures/reconcile/act.py"], done.stdout
    assert "assert_never" in found[0][1]


def test_an_intent_of_every_step_can_be_read_again() -> None:
    """mypy does not notice a step that is missing there."""
    assert set(_STEPS.values()) == set(get_args(Step) or (Step,))
