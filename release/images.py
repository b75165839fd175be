"""The operator's image for several architectures: built by buildah on bases given by digest, pushed by skopeo."""

from __future__ import annotations

import platform
import secrets

from release.layout import Layout
from release.plan import ARCHITECTURES, NAME, Plan
from release.programs import ReleaseError, run

HERE = {"x86_64": "amd64", "aarch64": "arm64"}
_ELF = b"\x7fELF"


def labels(plan: Plan) -> dict[str, str]:
    """Labels that OCI defines for an image, besides those of the Dockerfile."""
    name, _, digest = plan.settings["RUNTIME_BASE"].partition("@")
    of_ours = {
        "version": plan.version,
        "revision": plan.commit,
        "created": plan.time,
        "base.name": name,
        "base.digest": digest,
        "source": plan.settings["SOURCE_URL"],
    }
    return {f"org.opencontainers.image.{label}": value for label, value in of_ours.items() if value}


def build(plan: Plan) -> None:
    """One image for each architecture, and a list of them, in the folder `image`."""
    build_platform = f"linux/{HERE[platform.machine()]}"
    name = f"localhost/release/{NAME}:{plan.version}"
    for architecture in ARCHITECTURES:
        arguments = {
            "BUILD_BASE": plan.settings["BUILD_BASE"],
            "RUNTIME_BASE": plan.settings["RUNTIME_BASE"],
            "BUILDPLATFORM": build_platform,  # older releases of buildah do not say these two
            "TARGETPLATFORM": f"linux/{architecture}",
        }
        words = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        words += [f"--label={key}={value}" for key, value in labels(plan).items()]
        run(
            plan, "buildah", "bud", "--network=host", "--pull",
            f"--platform=linux/{architecture}", f"--timestamp={plan.seconds}",
            *words, f"--tag={name}-{architecture}", f"--file={plan.root / 'Dockerfile'}", plan.root,
        )  # fmt: skip
    manifest = run(plan, "buildah", "manifest", "create", f"{name}-{secrets.token_hex(4)}").split()[-1]
    try:
        for architecture in ARCHITECTURES:
            run(plan, "buildah", "manifest", "add", manifest, f"containers-storage:{name}-{architecture}")
        run(plan, "buildah", "manifest", "push", "--all", "--format=oci", manifest, f"oci:{plan.layout}:{plan.version}")
    finally:
        run(plan, "buildah", "rmi", manifest, *(f"{name}-{architecture}" for architecture in ARCHITECTURES))
    check(Layout(plan.layout))


def check(layout: Layout) -> None:
    """Each program in an image is of its architecture, or an error names one that is not."""
    if layout.digests.keys() != ARCHITECTURES.keys():
        raise ReleaseError(
            f"{layout.folder}: images for {', '.join(layout.digests)}, expected {', '.join(ARCHITECTURES)}"
        )
    for architecture, machine in ARCHITECTURES.items():
        for path, content in layout.files(architecture):
            if content.startswith(_ELF) and (other := int.from_bytes(content[18:20], "little")) != machine:
                raise ReleaseError(
                    f"{layout.folder}: /{path} of the image for {architecture} is a program for machine {other}, "
                    f"expected {machine}: build with a newer buildah"
                )


def push(plan: Plan) -> None:
    """The same bytes, so that the digest stays."""
    source = f"oci:{plan.layout}:{plan.version}"
    target = f"docker://{plan.registry}/{NAME}:{plan.version}"
    run(plan, "skopeo", "copy", "--all", "--preserve-digests", source, target)
    (plan.out / "image-reference.txt").write_text(f"{reference(plan)}\n", encoding="utf-8")


def reference(plan: Plan) -> str:
    """By digest, as it is pulled from the registry."""
    return f"{plan.registry}/{NAME}@{Layout(plan.layout).digest}"
