"""What is secret, as a digest: enough to see whether two of them are the same, and nothing of what they are.

The key is random and of this process alone, so that no list of guesses can be held against what was written out of it.
Of another process, an image that was pickled for example, a digest is like none of ours.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of one secret. It shows nothing."""

    code: bytes

    def __repr__(self) -> str:
        return "(secret)"


def digest_of(*parts: bytes | str) -> Digest:
    """The digest of these parts together; a part is never taken for the end of another."""
    encoded = [part.encode(errors="surrogatepass") if isinstance(part, str) else part for part in parts]
    return Digest(hmac.digest(_KEY, b"".join(len(part).to_bytes(8) + part for part in encoded), "sha256"))
