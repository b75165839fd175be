"""Requests that wait on a pod for another operator, from when they are sent until it restarts the pod, or they are
withdrawn (`Driver.asked`).

Pure. Called by `core/roll/` in each reconciliation with a restart in flight, and by `reconcile/`, which withdraws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkafeatures.core.engine.steps import InFlight, Step
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.roll.drivers import asking_driver
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode


def asked_among(intents: Iterable[InFlight]) -> Iterator[RestartInFlight]:
    """Restarts in flight that another operator was asked for."""
    for intent in intents:
        if isinstance(intent, RestartInFlight) and asking_driver(intent.step.by) is not None:
            yield intent


def request_of(step: Step) -> str:
    """What restarts a pod, such as "annotation"; empty for an eviction, and for a step that restarts none."""
    return step.by if isinstance(step, RestartNode) else ""


def may_be_pending(intent: RestartInFlight, observation: Observation) -> bool:
    """Tell whether its request, and not that of a person, may wait on the old pod. Where pods are no longer read, it
    does until it was withdrawn.
    """
    if not intent.step.is_unread_in(observation):
        return intent.step.is_withdrawable_in(observation)
    is_unanswered = intent.unwanted_since is None and intent.step.is_not_wanted(observation)
    return is_unanswered and asking_driver(intent.step.by) is not None
