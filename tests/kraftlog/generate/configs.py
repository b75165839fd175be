"""Writes `kraftlog/shown_configs.py`: the configs that Kafka defines, and not as passwords, so that they may be shown.

The releases say it themselves: `ConfigNames.java` asks their classes. A config that one of them takes for a password is
a secret in all of them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT, release

SOURCE = Path(__file__).with_name("ConfigNames.java")
NUMBERS = {"TOPIC": 2, "BROKER": 4, "CLIENT_METRICS": 16, "GROUP": 32}
"""`ConfigResource.Type`."""
HEAD = '''"""The configs that Kafka 3.9 to 4.4 define, and not as passwords: their values may be shown.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. Loaded only where configs are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

'''


def defined() -> set[tuple[str, str, str]]:
    """Resource, name and type of every config of every release."""
    found: set[tuple[str, str, str]] = set()
    for version in (OLD, MIDDLE, RECENT, NEWEST):
        command = ["java", "-cp", f"{release(version).home}/libs/*", str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            resource, name, kind = line.split()
            found.add((resource, name, kind))
    return found


def text(found: Iterable[tuple[str, str, str]]) -> str:
    """The text of the module, as yet unformatted."""
    every = set(found)
    secret = {name for _, name, kind in every if kind == "PASSWORD"}
    shown = {resource: sorted({n for r, n, _ in every if r == resource} - secret) for resource in NUMBERS}
    sets = "\n".join(f'_{r} = """\n{chr(10).join(_lines(names))}\n"""' for r, names in shown.items())
    entries = "".join(f"{number}: frozenset(_{resource}.split())," for resource, number in NUMBERS.items())
    return (
        f"{HEAD}{sets}\n\nSHOWN: Mapping[int, frozenset[str]] = MappingProxyType({{{entries}}})\n"
        '"""By the type of the resource (`ConfigResource.Type`): topic, broker, client metrics, group."""\n'
    )


def _lines(names: Iterable[str]) -> list[str]:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 118:
            lines.append("")
        lines[-1] += f" {name}" if lines[-1] else name
    return lines
