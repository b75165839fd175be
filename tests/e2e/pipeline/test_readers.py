"""The tables as other libraries read them: each gives the same rows as our own readers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.amounts import only_in_soak
from tests.e2e.clients.old_clients import HOME, fetched_once
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.page import PAGE, program
from tests.e2e.pipeline.readers import ON_THE_PAGE
from tests.featurelog.inputs import fleet, run, tables
from tests.kafkasim.fleets import written

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
def test_spark_with_the_library_of_delta_reads_the_same_rows_of_every_table_and_prints_what_the_page_shows(
    output: Path, of_fleet: Path
) -> None:
    home = HOME / DELTA.replace(":", "-")

    def fetch() -> None:
        (home / "pom.xml").write_text(_POM.format(*DELTA.split(":")))
        copy = ("dependency:copy-dependencies", "-DincludeGroupIds=io.delta", f"-DoutputDirectory={home}")
        _run("mvn", "-q", "-B", "-f", str(home / "pom.xml"), *copy)

    fetched_once(home, fetch)
    done = started(output, "with_spark", of_fleet, interpreter=sparks.python(SPARK), SPARK_JARS=str(home))
    assert sparks.said(done) == tables(output)
    assert json.loads(done.stdout.splitlines()[-2]) == program(ON_THE_PAGE)[1]


_EXTENSION = """
import duckdb_extension_delta
from pathlib import Path
(extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
duckdb.sql(f"LOAD '{extension}'")
"""
"""Instead of a download from DuckDB's own server, see `readers.with_duckdb`."""


@pytest.fixture(scope="module")
def of_fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of a generated fleet, as the page has it."""
    folder = tmp_path_factory.mktemp("fleet")
    run([written() / "logs"], folder / "tables", piece=1 << 24)
    return folder


@pytest.mark.parametrize("library", ["duckdb", "polars"])
def test_the_programs_on_the_page_about_the_pipeline_print_what_it_shows(of_fleet: Path, library: str) -> None:
    path = ":".join(map(str, (_home(LIBRARIES[name]) for name in ("with_duckdb", "with_polars"))))
    code, shown = program(f"import {library}\n")
    code = code.replace('duckdb.sql("INSTALL delta; LOAD delta")\n', _EXTENSION)
    environment = {**os.environ, "PYTHONPATH": path, "TZ": "UTC"}
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, cwd=of_fleet, env=environment, text=True).strip() == shown.strip()


def test_the_page_about_the_pipeline_names_the_versions_that_are_tried_here() -> None:
    page = PAGE.read_text()
    names = [libraries[0].replace("==", " ") for libraries in LIBRARIES.values()]
    for name in (*names, f"spark {SPARK}", f"deltalake {version('deltalake').rpartition('.')[0]}", f"io.delta:{DELTA}"):
        assert name in page.lower()


def read(output: Path, reader: str, **environment: str) -> dict[str, list[str]]:
    """The rows of every table."""
    answer: dict[str, list[str]] = sparks.said(started(output, reader, sparks.ROOT, **environment))
    assert all(answer.values())
    return answer


def started(
    output: Path, reader: str, folder: Path, interpreter: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The program `readers` in a folder, at its end: it prints the rows of every table."""
    values = (reader, str(output), *tables(output))
    return sparks.script("tests.e2e.pipeline.readers", *values, interpreter=interpreter, cwd=folder, env=environment)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
