"""What the API server's answers, and its errors, mean to a reconciliation. Shared by all drivers."""

from __future__ import annotations

from collections.abc import Awaitable

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
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
    """More than a cluster has."""


async def reading_of(reading: Awaitable[WorkloadsReading], namespace: str, remedy: str) -> WorkloadsReading | Failure:
    """The reading, or the reason why there is none. `remedy`: for a right that is missing."""
    try:
        return await reading
    except Forbidden as error:
        return Failure(FailureKind.AUTHORIZATION, f"namespace {namespace}", str(error), remedy)
    except RequestRefused as error:
        return Failure(FailureKind.REJECTED, f"namespace {namespace}", str(error))
    except (KubeError, OSError) as error:
        return Failure(FailureKind.UNREACHABLE, "the API server", str(error))
    except ListTooLarge as error:
        narrower = "correct the selector of the StatefulSets, which no other pod may match"
        return Failure(FailureKind.TOO_LARGE, f"namespace {namespace}", str(error), narrower)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"a StatefulSet, a pod or a PodDisruptionBudget is not as Kubernetes writes one: {error!r}"
        return Failure(FailureKind.REJECTED, f"namespace {namespace}", text)


async def outcome_of(request: Awaitable[object], remedy: str) -> Outcome:
    """The outcome of a request to restart one life of a pod. `remedy`: for a right that is missing."""
    try:
        await request
    except WriteWithheld as error:
        return NotSent(str(error))
    except Gone:
        return Applied()
    except Throttled as error:
        return Rejected(TOO_MANY_REQUESTS, str(error))
    except Forbidden as error:
        return Rejected(FORBIDDEN, f"{error}; {remedy}")
    except RequestRefused as error:
        return Rejected(BAD_REQUEST, str(error))
    except (Conflict, Unavailable, OSError) as error:
        # A Conflict is of the uid, so that life of the pod is over, or of a version; both answers are alike but for
        # their English. The next reading of the pods tells.
        remedy = f", and if this persists, {_WEBHOOK}" if isinstance(error, ServerFailed) else ""
        return OutcomeUnknown(f"{error}; it is asked for again{remedy}")
    return Applied()
