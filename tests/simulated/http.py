"""The simulated API server behind HTTP, for commands, which have a client of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Request


def written_kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig for this address, with the namespace "kafka"."""
    config = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "namespace": "kafka"}}],
    }
    (folder / "config").write_text(json.dumps(config))
    return folder / "config"


@contextmanager
def served(api: ApiServer) -> Iterator[str]:
    """The address at which it answers to GET."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            reply = api.answer(Request("GET", url.path, dict(parse_qsl(url.query))))
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(reply.body).encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
