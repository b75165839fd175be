"""The configuration of an HTTP client as Prometheus' own programs have it: a login and TLS, in YAML.

Called by the command line. What it decides: a field that is not known is refused, and so is `insecure_skip_verify`:
evidence of a server that may be another one proves nothing. No message has a secret.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

MAX_FILE = 1024 * 1024
"""Bytes of a configuration, or of a file that it names."""


class HttpConfigRefused(Exception):
    """A configuration that cannot be used: where, and why."""


class BasicAuth(Struct, frozen=True, forbid_unknown_fields=True):
    """A user and a password, which is either here or in a file."""

    username: str = ""
    password: str | None = None
    password_file: str | None = None


class Authorization(Struct, frozen=True, forbid_unknown_fields=True):
    """A header with credentials, which are either here or in a file."""

    type: str = "Bearer"
    credentials: str | None = None
    credentials_file: str | None = None


class TlsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Files of certificates in PEM. `server_name`: the name in the certificate of the server; None: the URL's host."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


class HttpConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration, with paths relative to its file."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    bearer_token_file: str | None = None
    tls_config: TlsConfig = TlsConfig()


def read_http_config(path: Path) -> HttpConfig:
    """The configuration in a file. Raises HttpConfigRefused."""
    try:
        config = msgspec.yaml.decode(_read(path), type=HttpConfig | None)
    except msgspec.ValidationError as error:  # names the field and the types, never a value
        raise HttpConfigRefused(f"{path}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HttpConfigRefused(f"{path}: not YAML") from None
    config = config or HttpConfig()
    if sum(login is not None for login in (config.basic_auth, config.authorization, config.bearer_token_file)) > 1:
        raise HttpConfigRefused(f"{path}: basic_auth, authorization and bearer_token_file exclude each other")
    if config.tls_config.insecure_skip_verify:
        text = "a server that is not verified may be another one; use ca_file or server_name"
        raise HttpConfigRefused(f"{path}: tls_config.insecure_skip_verify: {text}")
    return config


def headers_of(config: HttpConfig, folder: Path) -> Mapping[str, str]:
    """The header that logs in, if there is a login. `folder`: of the configuration. Raises HttpConfigRefused."""
    if config.basic_auth is not None:
        login = config.basic_auth
        password = _secret(login.password, login.password_file, folder, "basic_auth.password")
        value = "Basic " + b64encode(f"{login.username}:{password}".encode()).decode()
    elif config.authorization is not None:
        header = config.authorization
        secret = _secret(header.credentials, header.credentials_file, folder, "authorization.credentials")
        value = f"{header.type} {secret}"
    elif config.bearer_token_file is not None:
        value = "Bearer " + _secret(None, config.bearer_token_file, folder, "bearer_token")
    else:
        return {}
    if not (value.isascii() and value.isprintable()):
        raise HttpConfigRefused("the credentials have characters that no header may have")
    return {"Authorization": value}


def context_of(config: HttpConfig, folder: Path) -> ssl.SSLContext:
    """The context of TLS. `folder`: of the configuration. Raises HttpConfigRefused."""
    tls = config.tls_config
    try:
        context = ssl.create_default_context(cafile=None if tls.ca_file is None else folder / tls.ca_file)
    except OSError as error:
        raise HttpConfigRefused(f"tls_config.ca_file: {_reason(error, 'no certificates')}") from None
    if (tls.cert_file is None) != (tls.key_file is None):
        raise HttpConfigRefused("tls_config: cert_file and key_file belong together")
    if tls.cert_file is not None and tls.key_file is not None:
        try:
            context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, password=_no_password)
        except (OSError, ValueError) as error:
            reason = _reason(error, "no certificate with its key, which must not be encrypted")
            raise HttpConfigRefused(f"tls_config.cert_file: {reason}") from None
    return context


def _reason(error: Exception, otherwise: str) -> str:
    return str(error.strerror) if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else otherwise


def _no_password() -> str:
    """Refuse an encrypted key: OpenSSL would ask for its password at the terminal."""
    raise ValueError("encrypted")


def _secret(value: str | None, file: str | None, folder: Path, name: str) -> str:
    """The secret, from the one of its two fields that is set. Raises HttpConfigRefused."""
    if (value is None) == (file is None):
        raise HttpConfigRefused(f"expected either {name} or {name}_file")
    if file is None:
        return value or ""
    try:
        return _read(folder / file).decode().strip()
    except UnicodeDecodeError:
        raise HttpConfigRefused(f"{folder / file}: not UTF-8") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise HttpConfigRefused(f"{path}: {error.strerror}") from None
    if len(content) > MAX_FILE:
        raise HttpConfigRefused(f"{path}: larger than {MAX_FILE // 1024} KiB")
    return content
