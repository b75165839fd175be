"""Whether Java is there is asked before anything needs it, and answered in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelog import java


def fake(folder: Path, says: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_a_java_that_is_new_enough_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path, says)))
    java.check()


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (
            'java version "1.8.0_401"',
            "is version 8; install a JRE 17 or newer and set JAVA_HOME, or set `spark.enabled: f",
        ),
        ('openjdk version "11.0.2" 2019-01-15', "is version 11; "),
        ("no idea", "does not say its version; "),
    ],
)
def test_an_older_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, why: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path, says)))
    with pytest.raises(java.JavaError) as error:
        java.check()
    assert f"{tmp_path}/bin/java {why}" in str(error.value)


def test_none_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaError, match="no java is on the PATH; install"):
        java.check()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaError, match=r"bin/java: No such file or directory; install"):
        java.check()
