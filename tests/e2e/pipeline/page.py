"""The programs in Python on the page about the pipeline, with the output that it shows: tests run and compare them.

It is imported in interpreters that have nothing but Spark.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "run-the-pipeline.md"
_PROGRAM = re.compile(r"```python\n((?:(?!```).)*)```\n```\n(.*?)```\n", re.DOTALL)


def program(begin: str) -> tuple[str, str]:
    """The program that begins with this, and its output on the page."""
    ((code, output),) = (pair for pair in _PROGRAM.findall(PAGE.read_text()) if pair[0].startswith(begin))
    return code, output


def printed(begin: str, **names: object) -> str:
    """What the program that begins with this prints now. names: what is defined beside it."""
    code, _ = program(begin)
    with redirect_stdout(StringIO()) as output:
        exec(compile(code, PAGE.name, "exec"), dict(names))
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip().splitlines()) + "\n"
