"""A clone of this repository from which a release is made, with a store of images of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kafkafeatures import __version__
from tests.e2e.rig.kubernetes.binaries import CACHE, binary, build, install_packages, run
from tests.e2e.rig.registry import PASSWORD, USER, Registry

ROOT = Path(__file__).parents[3]
PACKAGES = {"buildah": "buildah", "skopeo": "skopeo"}
_ME = ("-c", "user.name=releaser", "-c", "user.email=releaser@localhost")


def commit_tree(folder: Path, files: Mapping[str, str] | None = None) -> Clone:
    """The files that git knows, as they are now, with others in their place, in one commit of a new repository. The
    changelog has a section for the version.
    """
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    changelog = folder / "CHANGELOG.md"
    heading = f"## Unreleased\n\n## {__version__} - 2026-01-31"
    changelog.write_text(changelog.read_text().replace("## Unreleased", heading, 1))
    for words in (("init", "-q"), ("add", "-A"), (*_ME, "commit", "-q", "-m", f"Release: {__version__}")):
        run("git", *words, cwd=folder)
    return Clone(folder)


class Clone:
    """A repository in which a release is made; `out` is where it lies."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "dist" / "release"

    def cloned(self, folder: Path) -> Clone:
        """A clone of this clone: the same commit in another folder."""
        run("git", "clone", "-q", self.folder, folder)
        return Clone(folder)

    def release(self, *programs: Path, **settings: str) -> subprocess.CompletedProcess[str]:
        """What `make release` runs. Beside what it names, `settings` may have variables for the programs."""
        build(["helm"])
        searched = ":".join([*map(str, programs), str(binary("helm").parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": searched, "VERSION": __version__, **settings}
        words = [sys.executable, "-m", "release"]
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
        return done

    def reference(self, of: str) -> str:
        """The address by digest of what was pushed: `image` or `chart`."""
        return (self.out / f"{of}-reference.txt").read_text().strip()


def push_settings(registry: Registry) -> dict[str, str]:
    """What a release is given to push to this registry, with a login of its own."""
    return {
        "REGISTRY": f"{registry.address}/team",
        "REGISTRY_USER": USER,
        "REGISTRY_PASSWORD": PASSWORD,
        "SSL_CERT_FILE": str(registry.authority),
    }


@contextmanager
def store() -> Iterator[dict[str, str]]:
    """The environment of a buildah whose images are removed at the end."""
    install_packages(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="rig-store-", dir=CACHE) as folder:
        settings = Path(folder, "storage.conf")
        places = "".join(f'{name} = "{folder}/{name}"\n' for name in ("graphroot", "runroot"))
        settings.write_text(f'[storage]\ndriver = "overlay"\n{places}')
        environment = {"CONTAINERS_STORAGE_CONF": str(settings), "BUILDAH_ISOLATION": "chroot"}
        yield environment
        used = {**os.environ, **environment}
        run("buildah", "rm", "--all", env=used)
        run("buildah", "rmi", "--all", "--force", env=used)


def push_bases(registry: Registry, name: str, folders: Mapping[str, Path], environment: Mapping[str, str]) -> str:
    """An image for several architectures of the folders' Dockerfiles, in the registry: its address by digest."""
    used = {**os.environ, **environment, **registry.environment}
    target = f"{registry.address}/bases/{name}"
    run("buildah", "manifest", "create", target, env=used)
    for architecture, folder in folders.items():
        made = f"localhost/{name}-{architecture}"
        isolation = ("--network=host", f"--platform=linux/{architecture}")
        run("buildah", "bud", *isolation, f"--tag={made}", folder, env=used)
        run("buildah", "manifest", "add", target, f"containers-storage:{made}", env=used)
    run("buildah", "manifest", "push", "--all", "--format=oci", target, f"docker://{target}:1", env=used)
    run("buildah", "rmi", "--all", "--force", env=used)  # what is built next takes them from the registry
    digest = json.loads(run("skopeo", "inspect", f"docker://{target}:1", env=used))["Digest"]
    return f"{target}@{digest}"
