"""What a release is made of: the version, the commit, and what the environment says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

NAME = "kafka-features-operator"
ARCHITECTURES = {"amd64": 62, "arm64": 183}
"""Architecture, as images name it -> the machine in the head of its programs (ELF)."""
SETTINGS = {
    "VERSION": "the version to release",
    "BUILD_BASE": "the image that builds, NAME@sha256:...",
    "RUNTIME_BASE": "the image that the operator's image begins with, NAME@sha256:...",
    "REGISTRY": "HOST[:PORT][/PATH] to push to; without it nothing is pushed",
    "REGISTRY_USER": "who logs in there; without it the logins of this machine are used",
    "REGISTRY_PASSWORD": "that user's password",
    "COSIGN_KEY": "the key that signs: a file, or a KMS reference that cosign knows",
    "SOURCE_URL": "where the sources are published",
    "BUILDER_ID": "a URI of who builds, for the provenance",
}
"""Variable of the environment -> what it says. `make release NAME=...` sets it."""


@dataclass(frozen=True)
class Plan:
    """root: the clone. out: the folder of all that is made. settings: by the names of SETTINGS; empty if not given."""

    root: Path
    out: Path
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def version(self) -> str:
        return self.settings["VERSION"]

    @property
    def registry(self) -> str:
        return self.settings["REGISTRY"]

    @property
    def commit(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def seconds(self) -> int:
        """Time of the commit, since 1970: the time of all that is made, so that the same commit makes the same."""
        return int(self.git("log", "-1", "--format=%ct"))

    @property
    def time(self) -> str:
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def layout(self) -> Path:
        """The image as a folder, in OCI's layout."""
        return self.out / "image"

    @property
    def chart(self) -> Path:
        return self.out / f"{NAME}-{self.version}.tgz"

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True)  # noqa: S603, S607 - words of our own
        return done.stdout.strip()


def read_plan(root: Path, environment: Mapping[str, str]) -> Plan:
    """The plan of the clone in this folder."""
    settings = {name: environment.get(name, "").strip() for name in SETTINGS}
    return Plan(root, root / "dist" / "release", settings, environment)
