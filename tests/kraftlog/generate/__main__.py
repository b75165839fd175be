"""`python -m tests.kraftlog.generate` writes what is made from Kafka's jars: schema tables, and which
configs may be shown.

Needs Java, and Maven once, for the jars. Tests hold what it would write against what is there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.kraftlog.generate import tables

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "operator/kraftlog/schema"


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


def formatted(text: str) -> str:
    """The text as ruff formats the rest of the tree."""
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(SCHEMA / "made.py")]
    sorted_ = [*ruff, "check", "--select", "I", "--fix", "-q", *name, "-"]
    done = subprocess.run(sorted_, input=text, cwd=ROOT, capture_output=True, text=True, check=True)
    last = [*ruff, "format", "-q", *name, "-"]
    return subprocess.run(last, input=done.stdout, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write what is not as it should be."""
    for path, text in table_files().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
