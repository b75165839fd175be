"""TLS settings as PEM texts. Others read them from Secrets or files; `contexts.py` makes TLS contexts of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tls:
    """No `ca`: the system trust. `certificate` with `key`: mTLS. Host names are always checked."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
