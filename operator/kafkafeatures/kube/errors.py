"""Errors of requests to the API server, as a small tree of exceptions.

    KubeError
    ├── Gone             404: the object does not exist
    ├── Conflict         409: it was changed since it was read; read and decide again
    ├── RequestRefused   400, 405, 413, 415: the server does not take the request; its message says why
    │   ├── Forbidden    403: a role or an admission webhook does not allow it
    │   └── Invalid      422: the schema of the object does not allow it
    ├── WriteWithheld    the operator withheld the request right before its first byte; nothing was sent
    ├── NoAccount        neither a kubeconfig nor a pod's account was found; before any request
    └── Unavailable      401, 5xx, no connection, no answer in time: try again, not before `retry_after`
        ├── ServerFailed 5xx: the server failed, or something that it calls before it answers, such as a webhook
        └── Throttled    429: nothing was done, because of load, or because of a PodDisruptionBudget

Only `translated` makes these of the exceptions that the HTTP client raises.
"""

from __future__ import annotations

import json

from aiohttp import ClientError
from kubernetes.aio.client import ApiException


class KubeError(Exception):
    """Failure of a request to the API server. `retry_after`: seconds that the server asks to wait; 0 for none."""

    retry_after = 0.0


class Gone(KubeError):
    """There is no such object."""


class Conflict(KubeError):
    """The object changed since it was read."""


class RequestRefused(KubeError):
    """The server understood the request and refuses it."""


class Forbidden(RequestRefused):
    """The operator has no right to this request, or an admission webhook does not allow it."""


class Invalid(RequestRefused):
    """The object does not match the schema that the API server has."""


class WriteWithheld(KubeError):
    """The request was withheld right before its first byte (`kube/first_byte.py`)."""


class NoAccount(KubeError):
    """There is no usable kubeconfig, and this process is not in a pod."""


class Unavailable(KubeError):
    """The request cannot be served now; try again later."""

    def __init__(self, text: str, *, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class ServerFailed(Unavailable):
    """The server answered that it failed."""


class Throttled(Unavailable):
    """The request was not carried out, because of load or a PodDisruptionBudget; try again later."""


NO_JSON = (json.JSONDecodeError, UnicodeDecodeError)
"""Exceptions of decoding an answer."""
RAISED = (ApiException, ClientError, TimeoutError, OSError, *NO_JSON)
"""All exceptions of the client."""


def translated(error: Exception, subject: str) -> KubeError:
    """The KubeError for an exception of `RAISED`. `subject`: the request, for people."""
    if isinstance(error, ApiException):
        return _of(error, subject)
    if isinstance(error, NO_JSON):  # such as an HTML page of a gateway in between
        return Unavailable(f"{subject}: the answer is not JSON; check that the address is the API server's")
    return Unavailable(f"{subject}: {str(error) or type(error).__name__}")


def _of(error: ApiException, subject: str) -> KubeError:
    text = f"{subject}: {error.status} {_message_of(error)}"
    match error.status:
        case 404:
            return Gone(text)
        case 409:
            return Conflict(text)
        case 422:
            return Invalid(text)
        case 403:
            return Forbidden(text)
        case 400 | 405 | 413 | 415:
            return RequestRefused(text)
        case 429:  # for an eviction, only the causes name the PodDisruptionBudget
            return Throttled(" ".join((text, *_causes(error))), retry_after=_retry_after(error))
        case code:
            kind = ServerFailed if code is not None and code >= 500 else Unavailable
            return kind(text, retry_after=_retry_after(error))


def _causes(error: ApiException) -> list[str]:
    """The texts of the causes that the answer names."""
    try:
        return [str(cause["message"])[:500] for cause in json.loads(error.body or "")["details"]["causes"]]
    except (TypeError, ValueError, KeyError):
        return []


def _message_of(error: ApiException) -> str:
    """The server's own message; for an answer without one, the words of the HTTP status."""
    try:
        return str(json.loads(error.body or "")["message"])[:500]
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _retry_after(error: ApiException) -> float:
    """Seconds that the server asks to wait; 0 for none, or for a date, which Kubernetes does not send."""
    headers = error.headers or {}
    value = str(headers.get("Retry-After", ""))
    return float(value) if value.isdigit() else 0.0
