"""What can go wrong between us and the API server, as a small tree.

    KubeError
    ├── Gone             404: it does not exist
    ├── Conflict         409: it was changed since it was read; read again, decide again
    ├── Refused          400, 405, 413, 415: it will not be taken as it is; the server's words say why
    │   ├── Forbidden    403: a role, or an admission webhook, says no
    │   └── Invalid      422: the schema of the object says no
    ├── Withheld         we gave it up ourselves right before its first byte; nothing was sent
    ├── NoAccount        nothing says where the API server is and who we are to it; before any request
    └── Unavailable      401, 5xx, no connection, no answer in time: try again, not before `retry_after`
        ├── ServerFailed 5xx: it has failed, or what it asks before it answers, such as a webhook
        └── Throttled    429: it did nothing, because it has too much to do, or a PodDisruptionBudget says no

The mapping from the client's exceptions is `translated`, and nowhere else.
"""

from __future__ import annotations

import json

from aiohttp import ClientError
from kubernetes.aio.client import ApiException


class KubeError(Exception):
    """Any failure of a request to the API server. `retry_after`: seconds it asks to wait, 0 where it does not say."""

    retry_after = 0.0


class Gone(KubeError):
    """There is no such object."""


class Conflict(KubeError):
    """The object changed since it was read."""


class RequestRefused(KubeError):
    """The server understood and will not do it."""


class Forbidden(RequestRefused):
    """The operator has no right to do this."""


class Invalid(RequestRefused):
    """The object does not fit the schema that the API server has."""


class WriteWithheld(KubeError):
    """The request must not leave after all."""


class NoAccount(KubeError):
    """No kubeconfig, and not in a pod."""


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
    """One of `RAISED`, as a KubeError. `subject`: the request, for people."""
    if isinstance(error, ApiException):
        return _of(error, subject)
    if isinstance(error, NO_JSON):  # a gateway in between, with a page of its own
        return Unavailable(f"{subject}: the answer is not JSON; check that the address is the API server's")
    return Unavailable(f"{subject}: {str(error) or type(error).__name__}")


def _of(error: ApiException, subject: str) -> KubeError:
    text = f"{subject}: {error.status} {_words(error)}"
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
        case 429:  # which budget says no is not in the message of an eviction
            return Throttled(" ".join((text, *_causes(error))), retry_after=_retry_after(error))
        case code:
            kind = ServerFailed if code is not None and code >= 500 else Unavailable
            return kind(text, retry_after=_retry_after(error))


def _causes(error: ApiException) -> list[str]:
    try:
        return [str(load["message"])[:500] for load in json.loads(error.body or "")["details"]["causes"]]
    except (TypeError, ValueError, KeyError):
        return []


def _words(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])[:500]
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _retry_after(error: ApiException) -> float:
    headers = error.headers or {}
    value = str(headers.get("Retry-After", ""))
    return float(value) if value.isdigit() else 0.0
