"""A pass up to its decision: what became of a standing intent, the proposal, the server's verdict, the decision.

Called by `reconcile/loop.py`, which carries it out, and by `plan`, which shows it: both decide the same on the same
picture. It sends nothing but a validateOnly, and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.core.decide import Decision, Memory, Proposal, Rival, Standing, decide, propose, to_validate
from kafkafeatures.core.observation import Known, MetadataMode, Observation
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.core.report import stamp
from kafkafeatures.core.steps import Verdict
from kafkafeatures.core.wanted import Mode, Wanted
from kafkafeatures.reconcile.ages import AgeOf, Ages
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.settle import Sleep, close_intent, counts_as_correction, fate_of, intent_of, is_ours

RivalOf = Callable[[str], Rival | None]
"""Of a cluster id: the older resource that owns it, or may turn out to."""


def nobody(cluster_id: str) -> Rival | None:
    """Where there are no other resources: the command line."""
    return None


@dataclass(frozen=True, slots=True)
class Considered:
    """A pass on paper.

    `before`: the status of before with what is known of it now: a settled intent is closed in it. `verdict` None:
    there was nothing to ask the server about. `ours` False: another cluster answers, or one that cannot be told.
    """

    observation: Observation
    wanted: Wanted
    before: dict[str, Any]
    proposal: Proposal
    decision: Decision
    verdict: Verdict | None
    ours: bool


async def consider(
    resource: Resource,
    observation: Observation,
    kafka: KafkaPort,
    *,
    now: Callable[[], datetime],
    ages: Ages,
    sleep: Sleep,
    rival_of: RivalOf = nobody,
) -> Considered:
    """Decide on what was just seen. Looks a second time where an intent stands and its level reads as before."""

    def age_of(moment: str) -> timedelta:
        return ages.of(moment, now())

    wanted, intent, fate = resource.wanted, intent_of(resource), None
    ours = is_ours(resource, observation)
    if intent is not None and ours:  # another cluster tells nothing about what became of it
        observation, fate = await fate_of(intent, resource, observation, kafka, age_of=age_of, sleep=sleep)
    before = dict(resource.status)
    before["spentConsents"] = [one for one in before.get("spentConsents", ()) if one in wanted.consents]
    if fate is not None:
        close_intent(before, fate, stamp(now()), age_of)
    # What is remembered of one cluster is nothing to another: there it is neither drift nor an approved plan.
    memory = memory_of(before, age_of) if ours else Memory(cluster_id=before.get("clusterId", ""))
    proposal = propose(wanted, observation, memory)
    if ours and proposal.plan.change_count:
        before["changeCount"] = proposal.plan.change_count
    rival = None
    if ours and wanted.mode is Mode.APPLY and isinstance(observation.cluster_id, Known):
        rival = rival_of(observation.cluster_id.value)
    mine = ours and not (rival and rival.known)
    verdict = await _verdict_on(kafka, wanted, proposal, observation) if mine else None
    standing = Standing(intent) if intent is not None and fate is None else None
    decision = decide(wanted, observation, memory, proposal=proposal, standing=standing, verdict=verdict, rival=rival)
    return Considered(observation, wanted, before, proposal, decision, verdict, ours)


def memory_of(status: Mapping[str, Any], age_of: AgeOf) -> Memory:
    """What the status holds that decisions need. Levels count as reached only while they are wanted as they were."""
    return Memory(
        cluster_id=status.get("clusterId", ""),
        change_count=status.get("changeCount", 0),
        spent=frozenset(status.get("spentConsents", ())),
        reached={
            one["name"]: one["desired"]
            for one in status.get("features", ())
            if one.get("state") in ("InSync", "Drifted") and "desired" in one
        },
        corrections=Counter(
            entry["action"].split(" ")[0] for entry in status.get("history", ()) if counts_as_correction(entry, age_of)
        ),
        plan=status.get("plan"),
    )


async def _verdict_on(kafka: KafkaPort, wanted: Wanted, proposal: Proposal, observation: Observation) -> Verdict | None:
    """The server's own word on all changes at once. Who only observes, or is suspended, sends nothing at all."""
    changes = to_validate(proposal.changes)
    in_kraft = isinstance(observation.mode, Known) and observation.mode.value is MetadataMode.KRAFT
    if not changes or not in_kraft or wanted.suspend or wanted.mode is Mode.OBSERVE:
        return None
    return await kafka.validate(changes)
