"""The steps of a release in their order: what each needs and makes. Later steps read what earlier ones wrote."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from release import chart, distributions, images, notes, provenance, sbom, signatures
from release.plan import Plan
from release.programs import ReleaseError, run


def login(plan: Plan) -> None:
    """Log in for this release alone; skopeo writes a file that all programs read."""
    file = plan.out / ".login" / "config.json"
    file.parent.mkdir(mode=0o700)
    user, password = plan.settings["REGISTRY_USER"], plan.settings["REGISTRY_PASSWORD"]
    words = [f"--authfile={file}", f"--username={user}", "--password-stdin", plan.registry.partition("/")[0]]
    run(plan, "skopeo", "login", *words, given=password)


@dataclass(frozen=True)
class Step:
    """programs: what it runs. makes: patterns of files below the folder of the release. wanted: the setting without
    which the step is left out; empty: it is always part of a release.
    """

    name: str
    run: Callable[[Plan], None]
    programs: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    wanted: str = ""


STEPS = (
    Step("wheels and sources", distributions.build, makes=("*.whl", "*.tar.gz")),
    Step("login", login, ("skopeo",), wanted="REGISTRY_USER"),
    Step("image", images.build, ("buildah",), ("image/index.json",)),
    Step("list of components", sbom.write, makes=("*.cdx.json",)),
    Step("chart", chart.package, ("helm",), ("*.tgz",)),
    Step("notes", notes.write, makes=("notes.md",)),
    Step("image to the registry", images.push, ("skopeo",), ("image-reference.txt",), "REGISTRY"),
    Step("chart to the registry", chart.push, ("helm",), ("chart-reference.txt",), "REGISTRY"),
    Step("provenance", provenance.write, makes=("provenance.json",)),
    Step("checksums", provenance.checksums, makes=("SHA256SUMS",)),
    Step("signatures", signatures.sign, ("cosign",), ("SHA256SUMS.sig",), "COSIGN_KEY"),
)


def of(plan: Plan) -> list[Step]:
    """The steps of this release."""
    return [step for step in STEPS if not step.wanted or plan.settings[step.wanted]]


def programs(plan: Plan) -> list[str]:
    """Programs that the steps run, each once."""
    return list(dict.fromkeys(["git", *(program for step in of(plan) for program in step.programs)]))


def run_all(plan: Plan) -> None:
    """From an empty folder; each step says when it is done."""
    shutil.rmtree(plan.out, ignore_errors=True)
    plan.out.mkdir(parents=True)
    try:
        for step in of(plan):
            began = time.monotonic()
            step.run(plan)
            missing = [pattern for pattern in step.makes if not list(plan.out.glob(pattern))]
            if missing:
                raise ReleaseError(f"{step.name}: made no {', '.join(missing)}; see {plan.out / 'log.txt'}")
            print(f"{step.name}: done in {time.monotonic() - began:.0f} s", flush=True)
    finally:
        shutil.rmtree(plan.out / ".login", ignore_errors=True)
