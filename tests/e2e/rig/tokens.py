"""An issuer of tokens for the OAUTHBEARER tests: a key, its JWKS file, and an https endpoint in a thread.

    with TokenServer(tmp_path, certificates) as issuer:
        Cluster(..., kind="OAUTHBEARER", jwks=issuer.jwks); issuer.url

The endpoint does the client credentials grant (RFC 6749, section 4.4) and signs RS256 tokens whose `sub` is the client
id. Real brokers check them against the JWKS file. `issued` counts tokens; `lifetime` is in seconds and may be changed.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.e2e.rig.certificates import Certificates

CLIENT_ID, CLIENT_SECRET = "alice", "client-secret-5d1e"
ISSUER, AUDIENCE, KEY_ID = "https://issuer.example", "kafka", "rig"


class TokenServer:
    """See the prologue."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        self.lifetime = 300.0
        self.issued = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = certificates.server_side(folder)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, subject: str, *, audience: str = AUDIENCE) -> str:
        """A signed token, valid for `lifetime` seconds from now."""
        self.issued += 1
        now = time.time()
        claims = {"sub": subject, "aud": audience, "iss": ISSUER, "iat": now, "exp": now + self.lifetime}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})


def _handler(issuer: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            if form.get("grant_type") != ["client_credentials"] or self.headers["Authorization"] != expected:
                self._answer(401, {"error": "invalid_client"})
            else:
                self._answer(200, {"access_token": issuer.token(CLIENT_ID), "expires_in": issuer.lifetime})

        def _answer(self, code: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    return Handler
