"""Signatures by cosign, with the key that is given: of image and chart in the registry, and of the checksums here."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from release import chart, images, provenance, sbom
from release.layout import Layout
from release.plan import ARCHITECTURES, NAME, Plan
from release.programs import run


def sign(plan: Plan) -> None:
    """All of it, in the order of `commands`."""
    with tempfile.TemporaryDirectory() as temporary:
        predicate = Path(temporary) / "predicate.json"
        predicate.write_text(json.dumps(provenance.predicate(plan)), encoding="utf-8")
        for words in commands(plan, predicate):
            run(plan, "cosign", *words)


def commands(plan: Plan, predicate: Path) -> list[list[str]]:
    """Arguments of each run of cosign. Nothing goes to a public log: who has the public key can check without one."""
    image, layout = images.reference(plan), Layout(plan.layout)
    keyed = ["--yes", f"--key={plan.settings['COSIGN_KEY']}", "--tlog-upload=false"]
    sums = plan.out / "SHA256SUMS"
    return [
        ["sign", *keyed, "--recursive", image],
        ["attest", *keyed, "--type=slsaprovenance1", f"--predicate={predicate}", image],
        *(
            [
                "attest",
                *keyed,
                "--type=cyclonedx",
                f"--predicate={sbom.path(plan, architecture)}",
                f"{plan.registry}/{NAME}@{layout.digests[architecture]}",
            ]
            for architecture in ARCHITECTURES
        ),
        ["sign", *keyed, chart.reference(plan)],
        ["sign-blob", *keyed, f"--output-signature={sums}.sig", str(sums)],
    ]
