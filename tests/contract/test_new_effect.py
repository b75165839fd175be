"""A new kind of stage is one room, its registration, the name of its condition, and its arm in the one match.

A kind that unregisters brokers that are gone is put into a copy of this tree. There it must appear wherever the other
kinds do: it is evaluated, sent and settled, and is in the status, the history, the Events, the output of `plan` and
`status`, and on the page.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import SOAK, only_in_soak

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).with_name("third_kind")
ROOM = Path("operator/kafkafeatures/core/unregistration")
KINDS = "operator/kafkafeatures/core/kinds.py"
ACT = "operator/kafkafeatures/reconcile/act.py"
REASONS = "operator/kafkafeatures/api/reasons.py"
STEP = "from kafkafeatures.core.unregistration.step import UnregisterBroker\n"
STAGE = "from kafkafeatures.core.unregistration.stage import Unregistrations\n"
ARM = """        case UnregisterBroker() as broker:
            return await _carry_out(context, evaluation, step, Via.CONTROLLER, partial(broker.send, context.kafka))
        case _ as unknown_kind:
"""
REGISTERED = (
    ("import Rolls\n", f"import Rolls\n{STAGE}{STEP}"),
    ("| RestartNode | DeleteZnodes\n", "| RestartNode | DeleteZnodes | UnregisterBroker\n"),
    (
        "= (Migrations(), InterBrokerProtocols(), Rolls(), Levels())\n",
        "= (Unregistrations(), Migrations(), InterBrokerProtocols(), Rolls(), Levels())\n",
    ),
)
SENT = (("        case _ as unknown_kind:\n", ARM), ("import RestartNode\n", f"import RestartNode\n{STEP}"))
NAMED = (
    (
        '    NODES_ROLLED = "NodesRolled"',
        '    BROKERS_UNREGISTERED = "BrokersUnregistered"\n    NODES_ROLLED = "NodesRolled"',
    ),
)
EDITS: Mapping[str, tuple[tuple[str, str], ...]] = {KINDS: REGISTERED, REASONS: NAMED, ACT: SENT}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy of the tree, with the new kind in it, which is not registered yet."""
    root = tmp_path_factory.mktemp("tree")
    # With its cache, mypy checks only what changed.
    for name in ("operator", "tests", "crds", *([".mypy_cache"] if SOAK else [])):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "golden"))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / ROOM).mkdir()
    for module in HERE.glob("*.py"):
        text = module.read_text().replace("tests.contract.third_kind", "kafkafeatures.core.unregistration")
        (root / ROOM / module.name).write_text(text)
    return root


def edit(tree: Path, *files: str) -> None:
    for file in files:
        text = (tree / file).read_text()
        for old, new in EDITS[file]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tree / file).write_text(text)


def mypy(tree: Path) -> list[str]:
    """The errors that mypy finds in the copy."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=tree, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.fixture(scope="module")
def registered(tree: Path) -> list[str]:
    """Errors of mypy once the kind is registered, before anything else is done; none are looked for but in a soak."""
    edit(tree, KINDS, REASONS)
    return mypy(tree) if SOAK else []


@pytest.fixture(scope="module")
def story(tree: Path, registered: list[str], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the new kind did, as `tests/contract/kind_story.py` prints it, once it can be sent as well.

    It has four statuses: "observed" in mode Observe, "sent" after the first request, "one" after broker 8 is
    unregistered, and "both" after broker 9 is too.
    """
    edit(tree, ACT)
    paths = {"PYTHONPATH": f"{tree / 'operator'}:{tree}", "PATH": str(Path(sys.executable).parent), "COLUMNS": "200"}
    command = [sys.executable, "-m", "tests.contract.kind_story", str(tmp_path_factory.mktemp("files"))]
    done = subprocess.run(command, cwd=tree, env=paths, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result: Mapping[str, Any] = json.loads(done.stdout)
    return result


def touched(tree: Path) -> Iterator[str]:
    """Files of the product that differ from this tree, outside of the package of the new kind."""
    for path in sorted((tree / "operator").rglob("*.py")):
        name = path.relative_to(tree)
        is_new = not (ROOT / name).exists()
        if name.parent != ROOM and (is_new or not filecmp.cmp(path, ROOT / name, shallow=False)):
            yield str(name)


@only_in_soak
def test_mypy_names_the_missing_branch_for_a_new_kind_of_stage(registered: list[str]) -> None:
    (error,) = registered
    assert error.startswith(f"{ACT}:")
    assert "assert_never" in error


def test_a_new_kind_of_stage_changes_at_most_three_files_outside_its_package(
    tree: Path, story: Mapping[str, Any]
) -> None:
    files = [*touched(tree)]
    print(f"A new kind of stage is {ROOM}/, and besides:", *files, sep="\n- ")
    assert files == sorted(EDITS)
    assert len(files) <= 3


@only_in_soak
def test_mypy_accepts_the_new_kind_of_stage(tree: Path, story: Mapping[str, Any]) -> None:
    assert mypy(tree) == []


def test_a_plan_has_two_stages_of_the_new_kind_and_is_read_back_from_the_status(story: Mapping[str, Any]) -> None:
    observed, sent, one, both = (story[name] for name in ("observed", "sent", "one", "both"))
    assert observed["stages"] == ["Unregistration", "Unregistration"]
    assert observed["steps"] == [["unregister broker 8", "Pending"], ["unregister broker 9", "Pending"]]
    assert one["steps"] == [["unregister broker 8", "Done"], ["unregister broker 9", "Pending"]]
    assert observed["plan"] == sent["plan"] == one["plan"]
    assert both["plan"] is None


def test_a_step_of_the_new_kind_is_sent_through_the_port_and_settled_by_two_readings(story: Mapping[str, Any]) -> None:
    assert story["requests"] == ["UnregisterBroker 8", "UnregisterBroker 9"]
    assert story["sent"]["intents"] == ["UnregisterBroker"]  # its answer was lost
    assert story["sent"]["history"] == []
    assert story["sent"]["spent"] == ["broker.8:1->0"]
    assert story["looks"] >= 2
    assert story["one"]["intents"] in ([], ["UnregisterBroker"])


def test_the_history_has_each_step_of_the_new_kind_once(story: Mapping[str, Any]) -> None:
    entries = [["UnregisterBroker", f"broker {one}", "Applied"] for one in (8, 9)]
    assert story["one"]["history"] == entries[:1]
    assert story["both"]["history"] == entries
    began = story["observed"]["changeCount"]
    assert [story[name]["changeCount"] - began for name in ("sent", "one", "both")] == [0, 1, 2]


def test_the_blocker_and_the_condition_of_the_new_kind_are_in_the_status(story: Mapping[str, Any]) -> None:
    assert story["blocked"] == [["NodeUnknown", "broker 1 runs", "stop broker 1 first"]]
    assert story["observed"]["ready"] == "Observed"
    assert story["observed"]["own"] == ["False", "would unregister broker 8, unregister broker 9"]
    assert story["both"]["own"] == ["True", "no broker is to be unregistered"]
    assert story["both"]["ready"] == "InSync"


def test_the_events_of_the_new_kind_have_a_reason_of_their_own(story: Mapping[str, Any]) -> None:
    own = [["BrokerUnregistered", "Unregister", f"unregister broker {one}"] for one in (8, 9)]
    assert [one for one in story["events"] if one[0] == "BrokerUnregistered"] == own
    assert not {"FeatureUpdated", "RestartingNode", "NodeRestarted"} & {reason for reason, _, _ in story["events"]}


def test_the_commands_show_the_stage_and_the_steps_of_the_new_kind(story: Mapping[str, Any]) -> None:
    document = story["plan of the file"]
    assert document["verdict"] == "Changes"
    assert [one["detail"] for one in document["steps"]] == ["unregister broker 8", "unregister broker 9"]
    assert "1. unregister broker 8  uses consent broker.8:1->0" in story["plan of the file, for people"]
    assert "2. unregister broker 9  uses consent broker.9:1->0" in story["plan"]
    assert "unregister broker 8, sent " in story["status"]
    assert "the registrations are being read" in story["status"]
    assert "BrokerUnregistered" in story["page"]
    assert "unregister broker 9" in story["page"]
    assert "BrokersUnregistered" in story["page"]
