"""Names of users, clients and tokens as Kafka writes them into paths of ZooKeeper: with percent encoding
(`Sanitizer.java`).

Pure. Called by the readers of znodes in this folder.
"""

from __future__ import annotations

import re

DEFAULT = "<default>"
"""Name of a znode with the defaults, for entities without a znode of their own."""

_PLAIN = re.compile(rb"[A-Za-z0-9._-]")
_CODE = re.compile(rb"%([0-9A-Fa-f]{2})")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sanitized(name: str) -> str:
    """Name of the znode for this name."""
    raw = name.encode(errors="surrogatepass")
    return "".join(chr(byte) if _PLAIN.match(bytes((byte,))) else f"%{byte:02X}" for byte in raw)


def desanitized(name: str) -> str:
    """Decoded name of a znode. Raises ValueError if Kafka could not decode it."""
    if _BROKEN.search(name):
        raise ValueError("invalid name: a percent sign without two hexadecimal digits")
    raw = name.replace("+", " ").encode(errors="surrogatepass")
    return _CODE.sub(lambda code: bytes.fromhex(code[1].decode()), raw).decode(errors="replace")
