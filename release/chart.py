"""The chart as a package: with the image that was built, by its digest, if there is a registry to pull it from."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from release import images
from release.layout import Layout
from release.plan import NAME, Plan
from release.programs import ReleaseError, run

DIGEST = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)


def package(plan: Plan) -> None:
    """From a copy, so that the tree stays as it was committed."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(shutil.copytree(plan.root / "charts" / NAME, Path(temporary) / NAME))
        if plan.registry:
            values, chart = copy / "values.yaml", copy / "Chart.yaml"
            image_fields = {"registry": plan.registry, "digest": Layout(plan.layout).digest}
            values.write_text(with_image(values.read_text(encoding="utf-8"), image_fields), encoding="utf-8")
            tag = f"{NAME}:{plan.version}"
            text = chart.read_text(encoding="utf-8").replace(f"image: {tag}\n", f"image: {images.reference(plan)}\n")
            chart.write_text(text, encoding="utf-8")
        words = [f"--version={plan.version}", f"--app-version={plan.version}", f"--destination={plan.out}"]
        run(plan, "helm", "package", copy, *words)


def with_image(values: str, image_fields: dict[str, str]) -> str:
    """The text of values.yaml with fields of `image` set; comments stay."""
    start, block, end = re.split(r"(?m)^(image:\n(?:  .*\n)+)", values, maxsplit=1)
    for field, value in image_fields.items():
        block, count = re.subn(rf'(?m)^  {field}: ""', f'  {field}: "{value}"', block)
        if count != 1:
            raise ReleaseError(
                f"values.yaml of the chart has no empty image.{field} to set: leave it empty in the tree"
            )
    return start + block + end


def push(plan: Plan) -> None:
    """To REGISTRY/charts; the digest is kept in a file, since helm only prints it."""
    printed = run(plan, "helm", "push", plan.chart, f"oci://{plan.registry}/charts")
    (digest,) = DIGEST.findall(printed)
    (plan.out / "chart-reference.txt").write_text(f"{plan.registry}/charts/{NAME}@{digest}\n", encoding="utf-8")


def reference(plan: Plan) -> str:
    """By digest, as it was pushed."""
    return (plan.out / "chart-reference.txt").read_text(encoding="utf-8").strip()
