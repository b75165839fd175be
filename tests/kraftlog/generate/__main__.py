"""`python -m tests.kraftlog.generate` writes what is made from Kafka's jars (schema tables, and which configs may be
shown), and the decoders, which are made of those tables.

Needs Java, and Maven once, for the jars. With `decoders` alone it needs nothing: the decoders are made of the tables
that are there. Tests hold what it would write against what is there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.kraftlog.generate import decoders, tables

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "operator/kraftlog/schema"
DECODERS = ROOT / "operator/kraftlog/decoders"
BY_HAND = {"__init__.py", "parts.py"}


def table_files() -> Mapping[Path, str]:
    """The tables, and the configs that may be shown, from the definitions of Kafka's releases."""
    from tests.kraftlog.generate import configs, definitions

    metadata, control = definitions.metadata(), definitions.control()
    images = [record_type for record_type in metadata if record_type.type.key in tables.IN_IMAGES]
    others = [record_type for record_type in metadata if record_type.type.key not in tables.IN_IMAGES]
    texts = {
        SCHEMA / "table.py": tables.table(images, control, others),
        SCHEMA / "others.py": tables.others(others),
        SCHEMA.parent / "shown_configs.py": configs.text(configs.defined()),
    }
    return {path: formatted(text) for path, text in texts.items()}


def decoder_files() -> Mapping[Path, str]:
    """The decoders, from the tables."""
    from kraftlog.records import module_name
    from kraftlog.schema import CONTROL_TYPES, METADATA_TYPES
    from kraftlog.schema.others import OTHER_TYPES

    kinds = (*METADATA_TYPES, *OTHER_TYPES, *CONTROL_TYPES)
    modules = {DECODERS / f"{module_name(kind)}.py": decoders.module(kind) for kind in kinds}
    return {path: formatted(text) for path, text in modules.items()}


def formatted(text: str) -> str:
    """The text as ruff formats the rest of the tree."""
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(DECODERS / "made.py")]
    sorted_ = [*ruff, "check", "--select", "I", "--fix", "-q", *name, "-"]
    done = subprocess.run(sorted_, input=text, cwd=ROOT, capture_output=True, text=True, check=True)
    last = [*ruff, "format", "-q", *name, "-"]
    return subprocess.run(last, input=done.stdout, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(words: list[str]) -> None:
    """Write what is not as it should be."""
    for write in (decoder_files,) if words == ["decoders"] else (table_files, decoder_files):
        files = write()
        for path, text in files.items():
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
                print(path.relative_to(ROOT))
    for path in DECODERS.glob("*.py"):
        if path not in files and path.name not in BY_HAND:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
