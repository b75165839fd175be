"""The values of a Secret of Kubernetes, in the form in which the operator and the command line use them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any


def secret_texts(secret: Mapping[str, Any]) -> dict[str, str]:
    """The values by key. Those that are no text have their bytes as surrogates, as file names in Python have."""
    data = secret.get("data") or {}
    return {key: base64.b64decode(text).decode("utf-8", "surrogateescape") for key, text in data.items()}


def certificates_in(secret: Mapping[str, Any] | None, owner: str) -> dict[str, str] | None:
    """The certificates in a Secret, by key; None for no Secret, and for one that is not owned by the resource with the
    uid `owner`.
    """
    owners = [] if secret is None else secret["metadata"].get("ownerReferences") or []
    if secret is None or owner not in [reference.get("uid") for reference in owners]:
        return None
    return {key: text for key, text in secret_texts(secret).items() if key.endswith(".crt")}
