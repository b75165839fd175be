"""Names say what a value is, and docstrings what comes back; `make check` prints the shares."""

from __future__ import annotations

import pytest

from tests.names import PACKAGES, measure


@pytest.mark.parametrize("package", PACKAGES)
def test_names_and_docstrings_of_a_package_are_plain(package: str) -> None:
    measured = measure(package)
    assert measured.is_plain, str(measured)
