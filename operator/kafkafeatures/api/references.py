"""References of a document to Secrets and ConfigMaps of its namespace: TLS, logins and tokens.

Types as those of `api/spec.py`, which reads them.
"""

from msgspec import Struct

from kafkafeatures.api.texts import Name, SecretKey


class SecretKeyRef(Struct, frozen=True, kw_only=True):
    """One key of a Secret (or of a ConfigMap) in the namespace of the resource."""

    name: Name
    key: SecretKey = "ca.crt"


class ClientSecretRef(Struct, frozen=True, kw_only=True):
    """A client certificate with its key, both PEM."""

    name: Name
    cert_key: SecretKey = "tls.crt"
    key_key: SecretKey = "tls.key"


class TlsSpec(Struct, frozen=True, kw_only=True):
    """`{}` is TLS with the system's trust."""

    ca_secret_ref: SecretKeyRef | None = None
    ca_config_map_ref: SecretKeyRef | None = None
    client_secret_ref: ClientSecretRef | None = None


class LoginSecretRef(Struct, frozen=True, kw_only=True):
    """The Secret that has user name and password (or token)."""

    name: Name
    username_key: SecretKey = "username"
    password_key: SecretKey = "password"  # noqa: S105 - the name of a key


class TokenSecretRef(Struct, frozen=True, kw_only=True):
    """The Secret that has a bearer token."""

    name: Name
    key: SecretKey = "token"
