"""The components of an image, as CycloneDX: read from its layers, Python's packages and Debian's."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from release.layout import Layout
from release.plan import NAME, Plan
from release.programs import ReleaseError

PYTHON = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA")
DEBIAN = "var/lib/dpkg/status"


def describe(plan: Plan, layout: Layout, architecture: str) -> str:
    """The same image makes the same text."""
    digest = layout.digests[architecture]
    image = Component(
        name=NAME, version=plan.version, type=ComponentType.CONTAINER, bom_ref=digest,
        purl=PackageURL("oci", None, NAME, digest, {"arch": architecture}),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))],
    )  # fmt: skip
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, digest))
    bom.metadata.component = image
    bom.metadata.timestamp = datetime.fromisoformat(plan.time)
    components: dict[str, Component] = {}
    for path, content in layout.files(architecture):
        if PYTHON.fullmatch(path):
            component = _of_python(content.decode(errors="replace"))
            components[str(component.purl)] = component
        elif path == DEBIAN:  # of a layer above another one: the newer state
            components = {key: component for key, component in components.items() if not key.startswith("pkg:deb/")}
            components |= {str(component.purl): component for component in _of_debian(content.decode(errors="replace"))}
    for component in components.values():
        bom.components.add(component)
    bom.register_dependency(image, components.values())
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ReleaseError(f"the list of components of the image for {architecture} is invalid CycloneDX: {error}")
    return text


def _of_python(metadata: str) -> Component:
    fields = email.message_from_string(metadata)
    package, version = str(fields["Name"]), str(fields["Version"])
    purl = PackageURL("pypi", None, re.sub(r"[-_.]+", "-", package).lower(), version)
    return Component(name=package, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))


def _of_debian(status: str) -> Iterator[Component]:
    for block in status.split("\n\n"):
        fields = email.message_from_string(block.strip())
        if fields["Package"] and "installed" in str(fields["Status"]).split():
            package, version = str(fields["Package"]), str(fields["Version"])
            purl = PackageURL("deb", "debian", package, version, {"arch": str(fields["Architecture"])})
            yield Component(name=package, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))
