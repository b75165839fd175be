"""Checks that there is a Java on which Spark can run. Called before Spark is imported or started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

VERSION = 17
"""The oldest Java on which Spark 4 runs."""
_REMEDY = f"install a JRE {VERSION} or newer and set JAVA_HOME, or set `spark.enabled: false` to read on one core"


class JavaError(Exception):
    """There is no Java, or it is too old; the text says what to do."""


def check() -> None:
    """Check the version of the Java that Spark would start: the one in JAVA_HOME, else on the PATH. Raises
    JavaError.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise JavaError(f"Spark needs Java {VERSION} or newer, and no java is on the PATH; {_REMEDY}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - the user's own
    except OSError as error:
        raise JavaError(f"Spark needs Java {VERSION} or newer; {java}: {error.strerror}; {_REMEDY}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if match is None or int(match[1]) < VERSION:
        version = f"is version {match[1]}" if match else "does not say its version"
        raise JavaError(f"Spark needs Java {VERSION} or newer, and {java} {version}; {_REMEDY}")
