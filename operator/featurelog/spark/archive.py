"""Packs the code that makes the tables of a cluster into a zip for Spark's workers, which do not have it.

It decides which packages are in the zip. Called when Spark is first used. Workers import from the zip first, whatever
is installed there, so that all of them make the tables that the driver would make. Neither kraftlog nor any library is
in the zip: workers must have kraftlog with its dependencies, and msgspec.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import featurelog
import kafkafeatures
from kafkafeatures import api, client_files, core


def write(path: Path) -> None:
    """Write the zip, from which Python can import."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source, name in sorted(_modules()):
            archive.write(source, name)


def _modules() -> Iterator[tuple[Path, str]]:
    """The path of each module, and its name within the archive."""
    for package in (featurelog, api, client_files, core):
        folder = Path(package.__path__[0])
        for source in folder.rglob("*.py"):
            yield source, "/".join((*package.__name__.split("."), *source.relative_to(folder).parts))
    yield Path(kafkafeatures.__path__[0], "__init__.py"), "kafkafeatures/__init__.py"
