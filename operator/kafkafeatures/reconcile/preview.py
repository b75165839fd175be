"""What a pass would do, without doing it: the server's verdict and the decision on one look.

Called by `plan`. It sends nothing but a validateOnly, and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafkafeatures.core.decide import Decision, Proposal, Standing, decide, propose
from kafkafeatures.core.observation import Observation
from kafkafeatures.core.steps import Verdict
from kafkafeatures.core.wanted import Wanted
from kafkafeatures.reconcile.loop import intent_of, is_ours, memory_of, verdict_on
from kafkafeatures.reconcile.ports import KafkaPort, Resource


@dataclass(frozen=True, slots=True)
class Preview:
    """One pass on paper. `verdict` None: there was nothing to ask the server about."""

    observation: Observation
    wanted: Wanted
    proposal: Proposal
    decision: Decision
    verdict: Verdict | None


async def preview(resource: Resource, observation: Observation, kafka: KafkaPort, now: datetime) -> Preview:
    """Decide on what was just seen. `kafka` is asked for its verdict only."""
    memory = memory_of(resource.status, now)
    proposal = propose(resource.wanted, observation, memory)
    ours = is_ours(resource, observation)
    verdict = await verdict_on(kafka, resource.wanted, proposal, observation) if ours else None
    intent = intent_of(resource)
    standing = Standing(intent) if intent is not None else None
    decision = decide(resource.wanted, observation, memory, proposal=proposal, standing=standing, verdict=verdict)
    return Preview(observation, resource.wanted, proposal, decision, verdict)
