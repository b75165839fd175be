"""How the release was built, as an in-toto statement with a SLSA provenance. The builder says it of itself: build level
1, or 2 if a forge's machine builds and the statement is signed there.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

from release import chart, images
from release.layout import Layout
from release.plan import NAME, Plan

TYPE = "https://kafkafeatures.dev/release/v1"
"""Names the build: the predicate's external parameters are the settings of `make release`."""
LOCAL = "https://kafkafeatures.dev/release/local"
NOT_SUBJECTS = {"log.txt", "notes.md", "chart-reference.txt", "image-reference.txt", "SHA256SUMS", "provenance.json"}


def write(plan: Plan) -> None:
    """The statement about all that was made."""
    text = json.dumps(statement(plan), indent=1) + "\n"
    (plan.out / "provenance.json").write_text(text, encoding="utf-8")


def statement(plan: Plan) -> dict[str, Any]:
    """Subjects and predicate."""
    files = sorted(path for path in plan.out.iterdir() if path.is_file() and path.name not in NOT_SUBJECTS)
    subjects = [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in files]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_of_image(plan), *([_named(chart.reference(plan))] if plan.registry else []), *subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate(plan),
    }


def predicate(plan: Plan) -> dict[str, Any]:
    """The predicate of an attestation of the image; cosign adds the subject."""
    public = ("VERSION", "REGISTRY", "BUILD_BASE", "RUNTIME_BASE", "SOURCE_URL")
    return {
        "buildDefinition": {
            "buildType": TYPE,
            "externalParameters": {setting: plan.settings[setting] for setting in public if plan.settings[setting]},
            "internalParameters": {"machine": platform.machine(), "python": platform.python_version()},
            "resolvedDependencies": materials(plan),
        },
        "runDetails": {
            "builder": {"id": plan.settings["BUILDER_ID"] or LOCAL},
            "metadata": {"invocationId": f"{plan.commit}/{plan.version}"},
        },
    }


def materials(plan: Plan) -> list[dict[str, Any]]:
    """The commit, the bases of the image, and the locks, which have the hash of each dependency."""
    source = {"uri": f"git+{plan.settings['SOURCE_URL'] or NAME}", "digest": {"gitCommit": plan.commit}}
    bases = [_named(plan.settings[setting]) for setting in ("BUILD_BASE", "RUNTIME_BASE")]
    locks = [plan.root / "requirements" / f"{lock}.lock" for lock in ("build", "operator")]
    return [
        source,
        *({"uri": f"oci:{base['name']}", "digest": base["digest"]} for base in bases),
        *({"uri": f"requirements/{lock.name}", "digest": {"sha256": sha256(lock)}} for lock in locks),
    ]


def checksums(plan: Plan) -> None:
    """SHA256SUMS, for `sha256sum --check`: all files, and of the image the file that names its digest."""
    files = [file for file in plan.out.iterdir() if file.is_file() and file.name not in {"log.txt", "SHA256SUMS"}]
    names = sorted([file.name for file in files] + ["image/index.json"])
    text = "".join(f"{sha256(plan.out / file)}  {file}\n" for file in names)
    (plan.out / "SHA256SUMS").write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _of_image(plan: Plan) -> dict[str, Any]:
    return _named(images.reference(plan)) if plan.registry else _named(f"{NAME}@{Layout(plan.layout).digest}")


def _named(reference: str) -> dict[str, Any]:
    name, _, digest = reference.partition("@sha256:")
    return {"name": name, "digest": {"sha256": digest}}
