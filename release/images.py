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
    """What OCI defines for an image, beside what the Dockerfile says."""
    name, _, digest = plan.settings["RUNTIME_BASE"].partition("@")
    of_ours = {
        "version": plan.version,
        "revision": plan.commit,
        "created": plan.time,
        "base.name": name,
        "base.digest": digest,
        "source": plan.settings["SOURCE_URL"],
    }
    return {f"org.opencontainers.image.{one}": value for one, value in of_ours.items() if value}


def build(plan: Plan) -> None:
    """One image for each architecture, and a list of them, in the folder `image`."""
    here = f"linux/{HERE[platform.machine()]}"
    name = f"localhost/release/{NAME}:{plan.version}"
    for one in ARCHITECTURES:
        arguments = {
            "BUILD_BASE": plan.settings["BUILD_BASE"],
            "RUNTIME_BASE": plan.settings["RUNTIME_BASE"],
            "BUILDPLATFORM": here,  # older releases of buildah do not say these two
            "TARGETPLATFORM": f"linux/{one}",
        }
        words = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        words += [f"--label={key}={value}" for key, value in labels(plan).items()]
        run(
            plan, "buildah", "bud", "--network=host", "--pull",
            f"--platform=linux/{one}", f"--timestamp={plan.seconds}",
            *words, f"--tag={name}-{one}", f"--file={plan.root / 'Dockerfile'}", plan.root,
        )  # fmt: skip
    made = run(plan, "buildah", "manifest", "create", f"{name}-{secrets.token_hex(4)}").split()[-1]
    try:
        for one in ARCHITECTURES:
            run(plan, "buildah", "manifest", "add", made, f"containers-storage:{name}-{one}")
        run(plan, "buildah", "manifest", "push", "--all", "--format=oci", made, f"oci:{plan.layout}:{plan.version}")
    finally:
        run(plan, "buildah", "rmi", made, *(f"{name}-{one}" for one in ARCHITECTURES))
    check(Layout(plan.layout))


def check(layout: Layout) -> None:
    """Each program in an image is of its architecture, or an error names one that is not."""
    if layout.digests.keys() != ARCHITECTURES.keys():
        raise ReleaseError(
            f"{layout.folder}: images for {', '.join(layout.digests)}, expected {', '.join(ARCHITECTURES)}"
        )
    for architecture, machine in ARCHITECTURES.items():
        for path, content in layout.files(architecture):
            if content.startswith(_ELF) and (found := int.from_bytes(content[18:20], "little")) != machine:
                raise ReleaseError(
                    f"{layout.folder}: /{path} of the image for {architecture} is a program for machine {found}, "
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
