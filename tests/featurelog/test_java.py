"""Java is checked before anything needs it; a missing or old one is reported in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelog import java


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose `java` prints this as its version."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_a_java_of_a_supported_version_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    java.check()


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (
            'java version "1.8.0_401"',
            "is version 8; install a JRE 17 or newer and set JAVA_HOME, or set `spark.enabled: f",
        ),
        ('openjdk version "11.0.2" 2019-01-15', "is version 11; "),
        ("no idea", "does not say its version; "),
    ],
)
def test_an_older_java_is_refused_with_its_version_and_one_without_a_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, why: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(java.JavaError) as error:
        java.check()
    assert f"{tmp_path}/bin/java {why}" in str(error.value)


def test_a_missing_java_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaError, match="no java is on the PATH; install"):
        java.check()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaError, match=r"bin/java: No such file or directory; install"):
        java.check()
