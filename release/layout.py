"""Reads an image that lies in a folder in OCI's layout: its digests, and the files in its layers."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Layout:
    """An image for several architectures, the only one in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def digest(self) -> str:
        """Of the whole image: what users pull by."""
        (manifest,) = json.loads((self.folder / "index.json").read_text(encoding="utf-8"))["manifests"]
        return str(manifest["digest"])

    @property
    def digests(self) -> dict[str, str]:
        """By architecture."""
        return {
            manifest["platform"]["architecture"]: manifest["digest"]
            for manifest in self._content(self.digest)["manifests"]
        }

    def labels(self, architecture: str) -> dict[str, str]:
        manifest = self._content(self.digests[architecture])
        image_labels: dict[str, str] = self._content(manifest["config"]["digest"])["config"]["Labels"]
        return image_labels

    def layers(self, architecture: str) -> list[Path]:
        """The archives that the image consists of, the lowest one first."""
        return [self._blob(layer["digest"]) for layer in self._content(self.digests[architecture])["layers"]]

    def files(self, architecture: str) -> Iterator[tuple[str, bytes]]:
        """Path and content of each file, from the lowest layer to the highest."""
        for layer in self.layers(architecture):
            with tarfile.open(layer) as archive:
                for member in archive:
                    if member.isfile() and (content := archive.extractfile(member)) is not None:
                        yield member.name.removeprefix("./"), content.read()

    def _content(self, digest: str) -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads(self._blob(digest).read_text(encoding="utf-8"))
        return document

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")
