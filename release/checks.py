"""What must hold before anything is built. A check returns its problem in one line: what, where, and what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from release.notes import section
from release.plan import NAME, Plan

SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
ADDRESS = re.compile(r"[a-zA-Z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")
IN_CODE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)

CHART = Path("charts") / NAME / "Chart.yaml"


def _in_code(path: str) -> Callable[[Plan], tuple[str, str, str]]:
    def found(plan: Plan) -> tuple[str, str, str]:
        return path, "__version__", "".join(IN_CODE.findall((plan.root / path).read_text(encoding="utf-8")))

    return found


def _in_chart(field: str) -> Callable[[Plan], tuple[str, str, str]]:
    def found(plan: Plan) -> tuple[str, str, str]:
        content = yaml.safe_load((plan.root / CHART).read_text(encoding="utf-8"))
        return str(CHART), field, str(content[field])

    return found


VERSIONS = (
    _in_code("operator/kafkafeatures/__init__.py"),
    _in_code("operator/kraftlog/__init__.py"),
    _in_chart("version"),
    _in_chart("appVersion"),
)
"""Where a version is written: file, field, value."""


def version_is_given(plan: Plan) -> str:
    if not plan.version:
        return "VERSION is not set: name the version to release, for example make release VERSION=0.1.0"
    if not SEMANTIC.fullmatch(plan.version):
        return f"VERSION: invalid value '{plan.version}'; expected a semantic version such as 0.1.0 or 0.2.0-rc.1"
    return ""


def versions_agree(plan: Plan) -> str:
    if version_is_given(plan):
        return ""
    versions = [version_in(plan) for version_in in VERSIONS]
    wrong = [f"{path}: {field} is {value}" for path, field, value in versions if value != plan.version]
    return f"{', '.join(wrong)}, expected {plan.version}: change and commit it" if wrong else ""


def changelog_has_the_version(plan: Plan) -> str:
    if version_is_given(plan) or section(plan):
        return ""
    return f"CHANGELOG.md has no text below a heading '## {plan.version}': move the text below '## Unreleased' there"


def tree_is_clean(plan: Plan) -> str:
    changed = plan.git("status", "--porcelain").splitlines()
    return (
        f"the working tree has {len(changed)} changed files, such as {changed[0].split(maxsplit=1)[1]}: commit them"
        if changed
        else ""
    )


def _base(name: str) -> Callable[[Plan], str]:
    def is_pinned(plan: Plan) -> str:
        value = plan.settings[name]
        if BY_DIGEST.fullmatch(value):
            return ""
        problem = f": invalid value '{value}'" if value else " is not set"
        return f"{name}{problem}; expected an image by digest, NAME@sha256:..., so that the release can be built again"

    return is_pinned


def registry_is_an_address(plan: Plan) -> str:
    if not plan.registry or ADDRESS.fullmatch(plan.registry):
        return ""
    return f"REGISTRY: invalid value '{plan.registry}'; expected HOST[:PORT][/PATH] without https://"


def what_belongs_together_is_set(plan: Plan) -> str:
    needs = {"COSIGN_KEY": "REGISTRY", "REGISTRY_USER": "REGISTRY", "REGISTRY_PASSWORD": "REGISTRY_USER"}
    wrong = [f"{setting} is set, but {other} is not" for setting, other in needs.items() if plan.settings[setting] > ""
             and not plan.settings[other]]  # fmt: skip
    return f"{', '.join(wrong)}: set both or neither" if wrong else ""


CHECKS: tuple[Callable[[Plan], str], ...] = (
    version_is_given,
    versions_agree,
    changelog_has_the_version,
    tree_is_clean,
    _base("BUILD_BASE"),
    _base("RUNTIME_BASE"),
    registry_is_an_address,
    what_belongs_together_is_set,
)


def problems(plan: Plan, programs: Iterable[str]) -> list[str]:
    """One line for each check that fails, and for each program that is missing. `programs`: those that will be run."""
    path = plan.environment.get("PATH")
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    failures = [check(plan) for check in CHECKS]
    return [failure for failure in failures if failure] + [
        f"{program} is not on the PATH: install it" for program in missing
    ]
