"""Meaning of the API server's answers and errors for a reconciliation: lists of a limited length, a reading or a
`Failure`, and the `Outcome` of a restart. Shared by all drivers of this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from typing import Any

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.errors import (
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    RequestRefused,
    ServerFailed,
    Throttled,
    Unavailable,
    WriteWithheld,
)

TOO_MANY_REQUESTS, FORBIDDEN, BAD_REQUEST = 429, 403, 400
_WEBHOOK = (
    "repair what the API server asks before it, such as a webhook "
    "(`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`)"
)


class ListTooLarge(Exception):
    """A list has more objects than a cluster can have, as by a selector that matches too much."""


async def listed_up_to(
    most: int, kind: str, api: WorkloadsApi, path: str, query: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The objects of a list, as JSON. Raises KubeError, and ListTooLarge above `most` objects of this `kind`, a plural
    for the message.
    """
    documents = []
    async with aclosing(api.listed(path, query)) as listed:
        async for raw in listed:
            documents.append(raw)
            if len(documents) > most:
                raise ListTooLarge(f"there are more than {most} {kind}")
    return documents


async def reading_of(
    reading: Awaitable[WorkloadsReading | Failure], namespace: str, remedy: str
) -> WorkloadsReading | Failure:
    """The reading, or the Failure because of which there is none. `remedy`: remedy for a missing right."""
    try:
        return await reading
    except Forbidden as error:
        return Failure(FailureKind.AUTHORIZATION, f"namespace {namespace}", str(error), remedy)
    except RequestRefused as error:
        return Failure(FailureKind.REJECTED, f"namespace {namespace}", str(error))
    except (KubeError, OSError) as error:
        return Failure(FailureKind.UNREACHABLE, "the API server", str(error))
    except ListTooLarge as error:
        narrower = "correct the selector of the pods, which no other pod may match"
        return Failure(FailureKind.TOO_LARGE, f"namespace {namespace}", str(error), narrower)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"a set of pods, a pod or a PodDisruptionBudget is not as Kubernetes writes one: {error!r}"
        return Failure(FailureKind.REJECTED, f"namespace {namespace}", text)


async def outcome_of(request: Awaitable[object], remedy: str) -> Outcome:
    """The outcome of a request to restart a pod of exactly this uid. `remedy`: remedy for a missing right."""
    try:
        await request
    except WriteWithheld as error:
        return NotSent(str(error))
    except Gone:  # the pod was replaced or deleted meanwhile, which is what was asked for
        return Applied()
    except Throttled as error:
        return Rejected(TOO_MANY_REQUESTS, str(error))
    except Forbidden as error:
        return Rejected(FORBIDDEN, f"{error}; {remedy}")
    except RequestRefused as error:
        return Rejected(BAD_REQUEST, str(error))
    except (Conflict, Unavailable, OSError) as error:
        # A Conflict means another uid, so that this pod is gone, or a change at the same moment. Only the texts of the
        # two answers differ, so the next reading of the pods has to show which it was.
        remedy = f", and if this persists, {_WEBHOOK}" if isinstance(error, ServerFailed) else ""
        return OutcomeUnknown(f"{error}; it is asked for again{remedy}")
    return Applied()
