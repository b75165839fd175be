"""kraftlog alone: what its wheel holds, what that needs, and that the examples of its reference run there."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import google_crc32c
import pytest

from docs.make.kraftlog_page import ARROW, AT, AT_SAYS, FOLDER, IMAGE, IMAGE_SAYS, PARTITIONED, READING, WALK
from tests.kraftlog.dump import parse_dump
from tests.kraftlog.golden import CHANGES, KRAFT, dump_of

ROOT = Path(__file__).resolve().parents[2]
ALONE = tomllib.loads((ROOT / "operator/kraftlog/pyproject.toml").read_text())["project"]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Run before each example: the only packages are those in `site`.
START = """
import sys
sys.path[:] = [*(one for one in sys.path if not one.endswith("site-packages")), "site"]
for name in ("kafkafeatures", "kafkasim", "kio", "pydantic", "yaml", "numpy"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} can be imported here")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--wheel-dir", str(folder)]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", str(ROOT / "operator/kraftlog")]
    subprocess.run([*build, *offline], check=True)
    (wheel_file,) = folder.glob("kraftlog-*.whl")
    return wheel_file


@pytest.fixture(scope="module")
def place(wheel: Path) -> Path:
    """A folder with a log, and with all that the wheel says it needs in `site`."""
    folder = wheel.parent / "place"
    site = folder / "site"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)
    for path in Path(google_crc32c.__file__).parents[1].glob("google_crc32c*"):
        (site / path.name).symlink_to(path)
    (folder / FOLDER).symlink_to(CHANGES.parent)
    return folder


def run(code: str, place: Path) -> str:
    command = [sys.executable, "-I", "-S", "-c", START + code]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


def test_the_wheel_contains_only_the_library(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    sources = {
        f"kraftlog/{path.relative_to(ROOT / 'operator/kraftlog')}"
        for path in (ROOT / "operator/kraftlog").rglob("*.py")
    }
    assert {name for name in names if ".dist-info/" not in name} == sources | {"kraftlog/py.typed"}


def test_the_dependencies_of_kraftlog_are_a_subset_of_those_of_the_operator() -> None:
    assert set(ALONE["dependencies"]) < set(WHOLE["dependencies"])
    assert ALONE["requires-python"] == WHOLE["requires-python"]


def test_the_wheel_alone_reads_a_log_directory(place: Path) -> None:
    assert run(IMAGE, place) == IMAGE_SAYS + "\n"


def test_the_wheel_alone_makes_the_image_at_an_offset(place: Path) -> None:
    assert run(AT, place) == AT_SAYS + "\n"


def test_the_wheel_alone_walks_over_the_batches_of_a_file(place: Path) -> None:
    levels = [
        f"{offset} {data['name']} {data['featureLevel']}"
        for offset, name, data in parse_dump(dump_of(CHANGES))
        if name == "FEATURE_LEVEL_RECORD" and data is not None
    ]
    assert run(WALK, place).splitlines() == levels
    assert len(levels) > 5


def test_the_wheel_alone_reads_a_file_to_the_last_byte(place: Path) -> None:
    *levels, account = run(READING, place).splitlines()
    assert account == "True 495"  # the account balances, and the file has 495 records
    assert len(levels) > 5


def test_the_library_and_numpy_read_partitions(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).symlink_to(KRAFT.parent)
    code = f"import sys; sys.path.insert(0, {str(wheel)!r})\n{PARTITIONED}print(len(found))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    (*short, count) = done.stdout.splitlines()
    assert int(count) > 0
    assert all(" in sync" in line for line in short)


def test_the_library_and_pyarrow_write_a_file_as_parquet(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).symlink_to(CHANGES.parent)
    code = f"import sys; sys.path.insert(0, {str(wheel)!r})\n{ARROW}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True 495\n"


def test_the_module_lines_does_not_import_msgspec(place: Path) -> None:
    assert run("import kraftlog.lines; print('msgspec' in sys.modules)", place) == "False\n"


def test_an_image_can_be_pickled_for_another_process(place: Path) -> None:
    run(IMAGE + "import pickle; open('image', 'wb').write(pickle.dumps(image))", place)
    code = "import json, pickle; i = pickle.load(open('image', 'rb')); print(json.dumps([i.offset, dict(i.features)]))"
    assert json.loads(run(code, place))[0] == int(IMAGE_SAYS.split()[0])


def test_every_export_of_kraftlog_exists_and_has_a_docstring() -> None:
    import kraftlog

    assert list(kraftlog.__all__) == sorted(kraftlog.__all__)
    assert all((getattr(kraftlog, name).__doc__ or "").strip() for name in kraftlog.__all__)
