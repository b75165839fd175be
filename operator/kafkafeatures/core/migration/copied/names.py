"""Names as Kafka writes them into paths of ZooKeeper (`Sanitizer.java`: percent encoding). Pure."""

from __future__ import annotations

import re

DEFAULT = "<default>"
"""The name of a znode that is for all who have none of their own."""

_PLAIN = re.compile(rb"[A-Za-z0-9._-]")
_CODE = re.compile(rb"%([0-9A-Fa-f]{2})")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sanitized(name: str) -> str:
    """The name of the znode."""
    raw = name.encode(errors="surrogatepass")
    return "".join(chr(byte) if _PLAIN.match(bytes((byte,))) else f"%{byte:02X}" for byte in raw)


def desanitized(name: str) -> str:
    """The name that is meant. Raises ValueError where it is none that Kafka can decode."""
    if _BROKEN.search(name):
        raise ValueError("invalid name: a percent sign without two hexadecimal digits")
    raw = name.replace("+", " ").encode(errors="surrogatepass")
    return _CODE.sub(lambda code: bytes.fromhex(code[1].decode()), raw).decode(errors="replace")
