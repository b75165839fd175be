"""A cache of the TLS contexts of one cluster. They are made when first needed, in a thread: loading CAs takes long.

Shared by all connections to the cluster, through its settings: `opening.py` takes a context for each TLS connection,
and `oauth.py` for the token endpoint.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kafkafeatures.kafka.base.threads import run_in_thread

if TYPE_CHECKING:  # plaintext does not need ssl
    from ssl import SSLContext

    from kafkafeatures.kafka.wire.pem import Tls


class Contexts:
    """The TLS contexts of a cluster's listeners and of its token endpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Tls, SSLContext] = {}

    async def context(self, tls: Tls) -> SSLContext:
        """The context of these settings. Raises TlsFailed where a PEM text cannot be used, naming which."""
        context = self._made.get(tls)
        return await run_in_thread(lambda: self.create(tls)) if context is None else context

    def create(self, tls: Tls) -> SSLContext:
        """The context of these settings; blocks, so it is for threads, and for processes whose event loop may wait.
        Raises TlsFailed.
        """
        from kafkafeatures.kafka.wire.tls import context

        with self._lock:  # many connections may need the same context at once
            if tls not in self._made:
                self._made[tls] = context(tls)
            return self._made[tls]
