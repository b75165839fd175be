"""Are the checks any good? Each defect is put back into the operator, in its own process, until a history shows it.

    python -m tests.reliability calibrate                    # all of them; the table of docs/explanation/how-we-test.md
    python -m tests.reliability calibrate --only old-approval --runs 500
    python -m tests.reliability.calibration NAME 50          # one, in this process; at most so many histories

Histories are tried in the order of their seeds, and the first one that breaks a promise ends it. A defect is a few
words of one module, replaced while it is imported: the tree is never touched. Where the words are no longer there,
it says so instead of passing.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.reliability.defect import Defect
from tests.reliability.migration_defects import MIGRATION_DEFECTS
from tests.reliability.roll_defects import ROLL_DEFECTS

DEFECTS = (
    Defect(
        "another-cluster-settles",
        "an effect on one cluster is settled by what another one shows",
        "kafkafeatures.reconcile.evaluate",
        (("    if not compared.is_ours:\n        return Settled", "    if False:\n        return Settled"),),
        elsewhere={
            "kafkafeatures.reconcile.settle": (
                ("if is_ours(resource, second) and not missing_in(", "if not missing_in("),
            ),
            # The second safeguard: what was concluded of another cluster is not written.
            "kafkafeatures.reconcile.evaluation": (
                (
                    "generation=self.resource.generation, previous=previous, at=self.current_time",
                    "generation=self.resource.generation, previous=self.remembered, at=self.current_time",
                ),
            ),
        },
    ),
    Defect(
        "ready-without-quorum",
        "Ready=True while no controller is active",
        "kafkafeatures.core.levels.read_back",
        (("    leaderless = tuple(quorum_is_known(LevelCheckInput(observation, ())))\n", "    leaderless = ()\n"),),
    ),
    Defect(
        "old-approval",
        "an approval that was used, or whose plan was withdrawn, approves the same change again",
        "kafkafeatures.core.engine.plan",
        (('"changeCount": changed_before,', '"changeCount": 0,'),),
    ),
    Defect(
        "wall-clock",
        "how long a broker may keep a request is measured by the wall clock",
        "kafkafeatures.reconcile.ages",
        (
            ("        times = self._times.get(stamp)\n", "        times = None\n"),
            ("return timedelta(seconds=self.monotonic() - met_at)", "return self.of(stamp, current_time)"),
        ),
    ),
    Defect(
        "younger-acts",
        "a younger resource acts on a cluster that an older one owns",
        "kafkafeatures.reconcile.claims",
        (("        owner = self._oldest(self._of_cluster.get(cluster_id, ()), ours)\n", "        owner = None\n"),),
    ),
    Defect(
        "two-operators",
        "a second operator that writes the same statuses is not noticed",
        "kafkafeatures.reconcile.operators",
        (
            (
                "self._wrote(resource, writer) if writer and writer.instance != self._us.instance else None",
                "None",
            ),
        ),
    ),
    Defect(
        "older-crd",
        "an intent that an older CRD dropped counts as written",
        "kafkafeatures.reconcile.kubernetes_store",
        (
            (
                "        _check(dropped, status)\n        self.kept = status\n",
                "        self.kept = status\n",
            ),
        ),
    ),
    Defect(
        "consent-kept",
        "a consent is not marked as used before it is used",
        "kafkafeatures.reconcile.act",
        (('sorted({*status.spent_consents, step.consent} - {""})', "sorted(status.spent_consents)"),),
    ),
    Defect(
        "act-first",
        "an effect is sent before its intent is written",
        "kafkafeatures.reconcile.act",
        (("    await context.store.write_status(status)\n    if not asked", "    if not asked"),),
    ),
    Defect(
        "kept-by-a-broker",
        "a request that a broker may still keep is believed undone",
        "kafkafeatures.core.levels.update_feature",
        (("if self.via is Via.BROKER and age < BROKER_KEEPS:", "if False:"),),
    ),
    Defect(
        "pause-ignored",
        "the annotation that pauses a resource is not read",
        "kafkafeatures.reconcile.kubernetes_store",
        (("paused=self._is_paused,", "paused=False,"),),
    ),
    Defect(
        "wrong-cluster",
        "a resource that is pointed at another cluster acts there",
        "kafkafeatures.core.engine.gates",
        (("    if pinned and observation.cluster_id.value != pinned:\n", "    if False:\n"),),
    ),
    Defect(
        "drift-corrected",
        "drift is corrected although it is only to be reported",
        "kafkafeatures.core.levels.proposal",
        (
            (
                "    return reached == change.to_level if change.feature in desired.levels "
                "else reached >= change.to_level\n",
                "    return False\n",
            ),
        ),
    ),
    Defect(
        "no-isr-gate",
        "a broker is restarted regardless of its partitions",
        "kafkafeatures.core.facts.replication",
        (("        return at is None or not self._forbidden[at]\n", "        return True\n"),),
        of_rolls=True,
    ),
    Defect(
        "in-flight-not-counted",
        "nodes that are in flight count as there, for partitions and for maxParallel",
        "kafkafeatures.core.roll.check_input",
        (
            (
                "        down = (self.flying | self.unavailable | beside) - excluded\n",
                "        down = beside - excluded\n",
            ),
            ("len(self.flying) + len(self.gone) >= self.cap", "len(self.gone) >= self.cap"),
        ),
        of_rolls=True,
    ),
    Defect(
        "readiness-is-back",
        "a pod that is ready counts as a node that is back",
        "kafkafeatures.core.roll.coming_back",
        (
            ("        if count:\n            some", "        if False:\n            some"),
            ("        if node.state is NodeState.FENCED:\n", "        if False:\n"),
        ),
        of_rolls=True,
    ),
    Defect(
        "leader-first",
        "the leader of the quorum is restarted before the other controllers",
        "kafkafeatures.core.facts.quorum",
        (("key=lambda id_: (id_ == quorum.leader_id, ", "key=lambda id_: (id_ != quorum.leader_id, "),),
        of_rolls=True,
    ),
    Defect(
        "evicted-first",
        "a pod is evicted before its intent is written",
        "kafkafeatures.reconcile.act",
        (("    await context.store.write_status(status)\n    if not asked", "    if not asked"),),
        of_rolls=True,
    ),
    Defect(
        "suspend-ignored",
        "suspend does not keep a roll from continuing",
        "kafkafeatures.core.engine.gates",
        (("    if not inputs.desired.suspend or not stage.is_due:\n", "    if True:\n"),),
        of_rolls=True,
    ),
    Defect(
        "restarted-again",
        "a pod that is of its template already is restarted all the same",
        "kafkafeatures.core.roll.pods",
        (("bool(owner.update_revision) and pod.revision != owner.update_revision", "bool(owner.update_revision)"),),
        of_rolls=True,
    ),
    *ROLL_DEFECTS,
    *MIGRATION_DEFECTS,
)


class Absent(Exception):
    """A defect whose words are not in the module, or more than once."""


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, defect: Defect) -> None:
        super().__init__(name, path)
        self._defect = defect

    def get_code(self, fullname: str) -> CodeType:
        return compile(defective(self._defect, fullname, self.get_data(self.path).decode()), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, defect: Defect) -> None:
        self._defect = defect

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._defect.by_module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._defect)
        return spec


def defective(defect: Defect, module: str, source: str) -> str:
    """The module with the defect in it. Raises Absent."""
    for old, new in defect.by_module[module]:
        if source.count(old) != 1:
            raise Absent(f"{defect.name}: {module} has these words {source.count(old)} times: {old!r}")
        source = source.replace(old, new)
    return source


def source_of(module: str) -> str:
    """The source of a module, as it is in the tree."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    return spec.loader.get_source(module) or ""


def found_by(defect: Defect, runs: int) -> str:
    """Judge one history in this process, which may not have imported the operator: "seed | promise", or empty."""
    sys.meta_path.insert(0, _Finder(defect))
    from tests.reliability.checker import violations
    from tests.reliability.migrations import FIRST, MIGRATIONS
    from tests.reliability.scene import ROLLS
    from tests.reliability.simulation import simulate

    seeds = range(ROLLS - 1, runs, ROLLS) if defect.of_rolls else range(runs)
    for seed in range(FIRST, runs, MIGRATIONS) if defect.of_migrations else seeds:
        found = violations(simulate(seed))
        if found:
            return f"{seed} | {found[0].rule}"
    return ""


def tried(defect: Defect, runs: int) -> str:
    """Tries a defect in a process of its own. Raises CalledProcessError."""
    command = [sys.executable, "-m", "tests.reliability.calibration", defect.name, str(runs)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def calibrated(runs: int, processes: int, only: Sequence[str] = ()) -> int:
    """Each in a process of its own; a table in Markdown, and 1 if any of them was missed."""
    chosen = [defect for defect in DEFECTS if not only or defect.name in only]
    missed = 0
    print("| Defect | Seed | Broken promise |\n|---|---|---|")
    with ThreadPoolExecutor(processes) as pool:
        for defect, result in zip(chosen, pool.map(lambda one: tried(one, runs), chosen), strict=True):
            missed += not result
            print(f"| {defect.then} | {result or f'MISSED in {runs} | none'} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    (_DEFECT,) = (one for one in DEFECTS if one.name == sys.argv[1])
    print(found_by(_DEFECT, int(sys.argv[2])))
