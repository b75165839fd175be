"""Listeners of real nodes: their security in a node's configuration, and the users that may log in."""

from __future__ import annotations

from pathlib import Path

USERS = {"alice": "alice-secret-9f3c", "bob": "bob-secret-77aa", "node": "node-secret-1b2c"}
"""SASL users of every cluster that has any. `node` is what nodes are to the controllers' listener."""

SASL_KINDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def protocol_of(kind: str) -> str:
    return kind if kind in ("PLAINTEXT", "SSL") else "SASL_SSL"


def _server_jaas(kind: str) -> str:
    package = "org.apache.kafka.common.security"
    if kind == "PLAIN":
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        return f'{package}.plain.PlainLoginModule required username="node" password="{USERS["node"]}" {users};'
    if kind == "OAUTHBEARER":
        return f"{package}.oauthbearer.OAuthBearerLoginModule required;"
    return f"{package}.scram.ScramLoginModule required;"


def listener(name: str, kind: str, root: Path, jwks: Path | None) -> dict[str, str]:
    """The lines for one listener. root: the folder with certificates. jwks: the keys that tokens are signed with."""
    if kind == "PLAINTEXT":
        return {}
    prefix = f"listener.name.{name.lower()}"
    lines = {
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.location": str(root / "node.pem"),
        f"{prefix}.ssl.truststore.type": "PEM",
        f"{prefix}.ssl.truststore.location": str(root / "ca.pem"),
        f"{prefix}.ssl.client.auth": "required" if kind == "SSL" else "none",
    }
    if kind in SASL_KINDS:
        lines[f"{prefix}.sasl.enabled.mechanisms"] = kind
        lines[f"{prefix}.{kind.lower()}.sasl.jaas.config"] = _server_jaas(kind)
    if kind == "OAUTHBEARER":
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        lines[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = handler
        lines[f"{prefix}.oauthbearer.connections.max.reauth.ms"] = "3600000"
        assert jwks is not None
        lines |= {
            "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://issuer.example",
        }
    return lines
