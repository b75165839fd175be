"""Tries the mutants of `mutants.py`, and says which programme kills each.

    python -m tests.reliability mutants                                   # all of them, with all three programmes
    python -m tests.reliability mutants --only rolls --programmes simulate --histories 300

Each is put into a copy of the tree, never into the tree itself, and a programme is run there that ends with the first
thing it finds. Units: the unit tests of the module's area. Simulate: random histories, of rolls for a mutant of rolls,
of migrations for one of a migration.
Rolls: modelled clusters. A programme is asked only for what it can reach. What is known of this
very tree is kept outside of it, so that a run that was ended continues where it was.
"""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import Queue

from tests.reliability.mutant import Mutant
from tests.reliability.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("operator", "tests", "crds", "charts", "docs", "pyproject.toml")
LIMIT = 1800.0
"""Seconds for one programme: what does not end is found as well."""


MODELLED = ("planner", "quorum", "replica_blocks", "replication")
"""Modules that modelled rolls run."""


@dataclass(frozen=True)
class Programme:
    """`reaches`: whether anything in it runs the file of a mutant. `commands`: in a copy of the tree, one after the
    other until one of them fails.
    """

    reaches: Callable[[Mutant], bool]
    commands: Callable[[Mutant, int], list[list[str]]]


def _units(mutant: Mutant, _: int) -> list[list[str]]:
    """The tests that are named after the module first, alone: they end before those of the area are collected."""
    package, *folders, module = Path(mutant.file).with_suffix("").parts
    own = sorted(ROOT.glob(f"tests/{package}/**/test_{module}*.py"))
    of_area = {
        "levels": ["kafkafeatures/core", "kafkafeatures/reconcile"],
        "rolls": ["kafkafeatures/core", "kafkafeatures/reconcile"],
        "clients": [
            "clients/test_verdict.py",
            "clients/test_registry.py",
            "kafkafeatures/core/test_breaking_clients.py",
            "kafkafeatures/core/test_clients_document.py",
            "kafkafeatures/prometheus",
            "kafkafeatures/reconcile/test_breaking_clients.py",
            "kafkafeatures/reconcile/test_client_evidence.py",
            "kafkafeatures/reconcile/test_client_config_map.py",
            "clients/test_config_map.py",
            "clients/test_prometheus_evidence.py",
            "clients/test_prometheus_http.py",
            "clients/test_soundness.py",
        ],
        "migration": ["kafkafeatures/core", "kafkafeatures/reconcile"],
        "adapters": [f"kafkafeatures/{folders[0] if folders else ''}", "kafkafeatures/reconcile", "simulated"],
        "pipeline": [
            "featurelog/tables",
            "featurelog/test_gate.py",
            "featurelog/test_run.py",
            "kraftlog/test_search.py",
        ],
    }[mutant.area]
    first = [str(one.relative_to(ROOT)) for one in own]
    pytest = ["pytest", "-q", "-x", "-p", "no:cacheprovider"]
    return [*([[*pytest, *first]] if first else []), [*pytest, *(f"tests/{one}" for one in of_area)]]


PROGRAMMES = {
    "units": Programme(lambda mutant: True, _units),
    "simulate": Programme(
        # No history has evidence about clients.
        lambda mutant: (
            mutant.area != "clients" and mutant.file.startswith(("kafkafeatures/core/", "kafkafeatures/reconcile/"))
        ),
        lambda mutant, histories: [["tests.reliability.mutating", mutant.area, str(histories)]],
    ),
    "rolls": Programme(
        lambda mutant: mutant.area == "rolls" and Path(mutant.file).stem in MODELLED,
        lambda mutant, histories: [["tests.rolls", "--steps", "30000"]],
    ),
}


def results_of(tree: str) -> Path:
    """What is known of a tree."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kafka-features-operator" / f"mutants-{tree}.json"


def tree_hash() -> str:
    """A hash of everything that is run."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("operator", "tests", "docs") for path in (ROOT / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Copy:
    """A copy of the tree, with one mutant in it at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in COPIED:
            there, here = ROOT / name, folder / name
            if there.is_dir():
                shutil.copytree(there, here, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            elif there.exists():
                shutil.copy(there, here)
        # By their content: two mutants may be of the same size, and written within the same second.
        compileall.compile_dir(folder / "operator", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Puts the fault into the copy while this is entered."""
        path = self._folder / "operator" / mutant.file
        source = path.read_text()
        assert source.count(mutant.old) == 1, f"{mutant.name}: see tests/reliability/test_mutants.py"
        path.write_text(source.replace(mutant.old, mutant.new))
        try:
            yield
        finally:
            path.write_text(source)

    def run(self, commands: Iterable[Sequence[str]]) -> str:
        """The way in which the first of these commands found the mutant; empty if none did."""
        return next(filter(None, map(self._found_by, commands)), "")

    def _found_by(self, command: Sequence[str]) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{self._folder / 'operator'}:{self._folder}"}
        try:
            done = subprocess.run(
                ["nice", "-n", "5", sys.executable, "-m", *command],
                cwd=self._folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"does not end within {LIMIT:g} s"
        if done.returncode == 0:
            return ""
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        failed = [line for line in said if line.startswith(("FAILED", "ERROR", "seed "))]
        return (failed or said or ["it ended"])[-1][:160]


def tried(only: Sequence[str], programmes: Sequence[str], histories: int, processes: int) -> int:
    """A table in Markdown, with what each programme said; 1 if none killed a mutant."""
    chosen = [one for one in MUTANTS if not only or one.area in only or one.name in only]
    kept = results_of(tree_hash())
    known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    copies: Queue[Copy] = Queue()

    def one(mutant: Mutant) -> dict[str, str]:
        copy, found = copies.get(), {}
        try:
            for name in programmes:
                programme = PROGRAMMES[name]
                if not programme.reaches(mutant):
                    continue
                key = _key(mutant, name, histories)
                if key not in known:
                    with copy.with_mutant(mutant):
                        known[key] = copy.run(programme.commands(mutant, histories))
                    kept.write_text(json.dumps(known, indent=1))
                found[name] = known[key]
        finally:
            copies.put(copy)
        return found

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(processes):
            copies.put(Copy(Path(folder) / str(number)))
        _refuse_what_fails_anyway(copies, chosen, programmes)
        print(f"| Mutant | Of | {' | '.join(programmes)} |\n|---|---|{'---|' * len(programmes)}")
        table: list[tuple[Mutant, dict[str, str]]] = []
        with ThreadPoolExecutor(processes) as pool:
            for mutant, found in zip(chosen, pool.map(one, chosen), strict=True):
                table.append((mutant, found))
                cells = ["" if name not in found else "killed" if found[name] else "survived" for name in programmes]
                print(f"| {mutant.name} | {mutant.area} | {' | '.join(cells)} |", flush=True)
    for name in programmes:
        reached = [found[name] for _, found in table if name in found]
        print(f"{name}: killed {sum(map(bool, reached))} of the {len(reached)} that it reaches")
    survivors = [mutant.name for mutant, found in table if found and not any(found.values())]
    print(*(f"nothing kills: {name}" for name in survivors), sep="\n")
    return 1 if survivors else 0


def _key(mutant: Mutant, programme: str, histories: int) -> str:
    return f"{mutant.name} | {programme}{f' {histories}' if programme == 'simulate' else ''}"


def _refuse_what_fails_anyway(copies: Queue[Copy], chosen: Sequence[Mutant], programmes: Sequence[str]) -> None:
    """A programme that fails without any mutant kills nothing."""
    copy = copies.get()
    for area in dict.fromkeys(one.area for one in chosen):
        first = next(one for one in chosen if one.area == area)
        for name in programmes:
            if PROGRAMMES[name].reaches(first) and (why := copy.run(PROGRAMMES[name].commands(first, 60))):
                raise SystemExit(f"{name} of {area} fails without any mutant: {why}")
    copies.put(copy)


def in_turn(seeds: Iterable[int]) -> list[int]:
    """Each encore once before any comes again, beside as many histories without one: so a fault that one of them shows
    is found soon.
    """
    from tests.reliability.encores import ENCORES, Encore, drawn

    met: Counter[Encore | None] = Counter()
    ranked = []
    for seed in seeds:
        one = drawn(seed)
        ranked.append((met[one] // (len(ENCORES) if one is None else 1), seed))
        met[one] += 1
    return [seed for _, seed in sorted(ranked)]


def first_broken(area: str, histories: int) -> str:
    """In this process: a seed whose history breaks a promise, and which. For a mutant of rolls those histories are
    enough that are about rolls, which are one out of sixteen, and for one of a migration those about migrations; for
    any other one they come last.
    """
    from tests.reliability.checker import violations
    from tests.reliability.migrations import is_migration
    from tests.reliability.scene import ROLLS
    from tests.reliability.simulation import simulate

    migrations = [seed for seed in range(histories) if is_migration(seed)]
    about_rolls = in_turn(seed for seed in range(histories) if seed % ROLLS == ROLLS - 1)
    others = in_turn(seed for seed in range(histories) if seed % ROLLS != ROLLS - 1 and not is_migration(seed))
    by_area = {"rolls": about_rolls, "migration": migrations}
    for seed in by_area.get(area, [*others, *about_rolls, *migrations]):
        try:
            found = violations(simulate(seed))
        except Exception as error:  # whatever it is, it would end the suite
            return f"seed {seed}: {type(error).__name__}: {error}"
        if found:
            return f"seed {seed}: {found[0].rule}"
    return ""


if __name__ == "__main__":
    _SAID = first_broken(sys.argv[1], int(sys.argv[2]))
    print(_SAID)
    sys.exit(bool(_SAID))
