"""The moment before the first byte of a request leaves, at which it may still be withheld.

A driver asks for a restart inside of `withholding`; `kube/client.py` calls `before_first_byte` once the connection is
there. What a driver sends meanwhile is asked about each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kafkafeatures.kube.errors import WriteWithheld

_WITHHELD: ContextVar[Callable[[], str | None]] = ContextVar("withheld", default=lambda: None)


@contextmanager
def withholding(withheld: Callable[[], str | None]) -> Iterator[None]:
    """Ask this before the first byte of each request: why it must not leave; None where it may."""
    token = _WITHHELD.set(withheld)
    try:
        yield
    finally:
        _WITHHELD.reset(token)


def before_first_byte() -> None:
    """Ask whether the request that has a connection now may leave. Raises Withheld."""
    if (reason := _WITHHELD.get()()) is not None:
        raise WriteWithheld(reason)
