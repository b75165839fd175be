"""The tables as other libraries read them: each gives the same rows as our own readers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL
from tests.amounts import only_in_soak
from tests.e2e.clients.old_clients import HOME, fetched_once
from tests.e2e.pipeline import sparks
from tests.featurelog.inputs import fleet, run, tables

LIBRARIES = {
    "with_pandas": ("pandas==3.1.1", "python-dateutil==2.9.0.post0", "six==1.17.0"),
    "with_polars": ("polars==2.1.0", "polars-runtime-32==2.1.0"),
    "with_duckdb": ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5"),
}
"""Packages of each reader, beside those of this environment: the pipeline's deltalake and pyarrow."""
SPARK, DELTA = "4.2.0", "delta-spark_4.2_2.13:4.4.0"
"""The newest Spark for which Delta has a library."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rig</groupId><artifactId>delta</artifactId><version>1</version><dependencies><dependency>
<groupId>io.delta</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies></project>
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of two runs: the second one has replaced files of the first."""
    folder = tmp_path_factory.mktemp("readers")
    fleet(folder / "in")
    run([folder / "in"], folder / "out")
    (folder / "in" / "orders").rename(folder / "in" / "orders of 'EU' %20=ü")
    run([folder / "in"], folder / "out")
    return folder / "out"


@pytest.mark.parametrize(
    ("reader", "libraries"), [*LIBRARIES.items(), ("with_polars_lazily", LIBRARIES["with_polars"])]
)
def test_a_library_that_others_use_reads_the_same_rows_of_every_table(
    output: Path, reader: str, libraries: tuple[str, ...]
) -> None:
    path = f"{_home(libraries)}:{sparks.ROOT}"
    assert read(output, reader, PYTHONPATH=path, TZ="UTC") == tables(output)


def _home(libraries: tuple[str, ...]) -> Path:
    """The folder with these packages, from which Python can import them."""
    home = HOME / "-".join(libraries).replace("==", "-")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    fetched_once(home, lambda: _run(*pip, "--target", str(home), *libraries))
    return home


@only_in_soak
def test_spark_with_the_library_of_delta_reads_the_same_rows_of_every_table(output: Path) -> None:
    home = HOME / DELTA.replace(":", "-")

    def fetch() -> None:
        (home / "pom.xml").write_text(_POM.format(*DELTA.split(":")))
        copy = ("dependency:copy-dependencies", "-DincludeGroupIds=io.delta", f"-DoutputDirectory={home}")
        _run("mvn", "-q", "-B", "-f", str(home / "pom.xml"), *copy)

    fetched_once(home, fetch)
    assert read(output, "with_spark", interpreter=sparks.python(SPARK), SPARK_JARS=str(home)) == tables(output)


_PROGRAM = re.compile(r"```python\n(import (?:duckdb|polars)\n.*?)```\n```\n(.*?)```\n", re.DOTALL)
_EXTENSION = """
import duckdb_extension_delta
from pathlib import Path
(extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
duckdb.sql(f"LOAD '{extension}'")
"""
"""Instead of a download from DuckDB's own server, see `readers.with_duckdb`."""


def test_the_programs_on_the_page_about_the_pipeline_print_what_it_shows(tmp_path: Path) -> None:
    write_fleet(tmp_path / "fleet", SMALL)
    run([tmp_path / "fleet" / "logs"], tmp_path / "tables", piece=1 << 24)
    programs = _PROGRAM.findall((sparks.ROOT / "docs" / "how-to" / "run-the-pipeline.md").read_text())
    path = ":".join(map(str, (_home(LIBRARIES[name]) for name in ("with_duckdb", "with_polars"))))
    for program, shown in programs:
        code = program.replace('duckdb.sql("INSTALL delta; LOAD delta")\n', _EXTENSION)
        environment = {**os.environ, "PYTHONPATH": path, "TZ": "UTC"}
        command = [sys.executable, "-c", code]
        assert subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).strip() == shown.strip()
    assert len(programs) == 2


def test_the_page_about_the_pipeline_names_the_versions_that_are_tried_here() -> None:
    page = (sparks.ROOT / "docs" / "how-to" / "run-the-pipeline.md").read_text()
    names = [libraries[0].replace("==", " ") for libraries in LIBRARIES.values()]
    for name in (*names, f"spark {SPARK}", f"deltalake {version('deltalake').rpartition('.')[0]}", f"io.delta:{DELTA}"):
        assert name in page.lower()


def read(output: Path, reader: str, interpreter: str = sys.executable, **environment: str) -> dict[str, list[str]]:
    """The rows of every table."""
    program = sparks.script(
        "tests.e2e.pipeline.readers", reader, str(output), *tables(output), interpreter=interpreter, env=environment
    )
    answer: dict[str, list[str]] = sparks.said(program)
    assert all(answer.values())
    return answer


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
