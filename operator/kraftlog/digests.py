"""Digests of secrets, which can be compared for equality and reveal nothing else.

Called by `configs`, and by the comparison of ZooKeeper with the log. The key is random for each process, so that nobody
can compare guesses with a digest that left the process. A digest of another process, for example in a pickled image,
equals none of ours.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a secret."""

    code: bytes

    def __repr__(self) -> str:
        return "(secret)"


def digest_of(*parts: bytes | str) -> Digest:
    """The digest of these parts together. Their lengths count, so that ("ab", "c") and ("a", "bc") differ."""
    encoded = [part.encode(errors="surrogatepass") if isinstance(part, str) else part for part in parts]
    return Digest(hmac.digest(_KEY, b"".join(len(part).to_bytes(8) + part for part in encoded), "sha256"))
