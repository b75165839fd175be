"""References of a document to Secrets and ConfigMaps of its namespace: TLS, logins and tokens.

The types belong to those of `api/spec.py`.
"""

from msgspec import Struct

from kafkafeatures.api.texts import CertificateKey, Name, SecretKey


class CertificatesRef(Struct, frozen=True, kw_only=True):
    """Certificates in a Secret, or in a ConfigMap, in the namespace of the resource. key: `*.crt` for those of all keys
    that end so.
    """

    name: Name
    key: CertificateKey = "ca.crt"


class ConfigMapRef(Struct, frozen=True, kw_only=True):
    """A ConfigMap in the namespace of the resource."""

    name: Name


class ClientSecretRef(Struct, frozen=True, kw_only=True):
    """Secret with a client certificate and its private key, both PEM."""

    name: Name
    cert_key: SecretKey = "tls.crt"
    key_key: SecretKey = "tls.key"


class TlsSpec(Struct, frozen=True, kw_only=True):
    """TLS settings; `{}` is TLS with the CA certificates of the system."""

    ca_secret_ref: CertificatesRef | None = None
    ca_config_map_ref: CertificatesRef | None = None
    client_secret_ref: ClientSecretRef | None = None


class LoginSecretRef(Struct, frozen=True, kw_only=True):
    """Secret with a user name and a password, or a token."""

    name: Name
    username_key: SecretKey = "username"
    password_key: SecretKey = "password"  # noqa: S105 - the name of a key


class TokenSecretRef(Struct, frozen=True, kw_only=True):
    """Secret with a bearer token."""

    name: Name
    key: SecretKey = "token"
