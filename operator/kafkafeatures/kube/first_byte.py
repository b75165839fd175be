"""The last moment at which a request may still be withheld: once its connection is open, before its first byte leaves.

A driver sends the request for a restart within `withholding`; `kube/client.py` calls `before_first_byte` for every
request once the connection is open. So a slow connection cannot delay a restart past the last check
(`reconcile/last_second.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kafkafeatures.kube.errors import WriteWithheld

_WITHHELD: ContextVar[Callable[[], str | None]] = ContextVar("withheld", default=lambda: None)


@contextmanager
def withholding(withheld: Callable[[], str | None]) -> Iterator[None]:
    """Context in which `withheld` is called before the first byte of each request. It returns the reason why the
    request must not leave; None where it may.
    """
    token = _WITHHELD.set(withheld)
    try:
        yield
    finally:
        _WITHHELD.reset(token)


def before_first_byte() -> None:
    """Check that the request whose connection is open now may leave. Raises WriteWithheld."""
    if (reason := _WITHHELD.get()()) is not None:
        raise WriteWithheld(reason)
