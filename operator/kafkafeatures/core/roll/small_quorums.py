"""Restarts of voters in a quorum of one or two, which has no majority while one of them is away.

Pure. Called by `core/roll/admission.py` and `core/roll/next_restart.py` before a controller restarts: by the rule of
larger quorums (`core/facts/quorum.py`) it could never be restarted. The only voter may be restarted with the consent
`quorum-of-one`, which is for that one restart. Of two voters neither may: a user who accepts a time without a quorum
removes one of them first.
"""

from __future__ import annotations

from kafkafeatures.api.names import QUORUM_OF_ONE
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.engine.decisions import Stalled, stalled_by
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.roll.check_input import RestartCheckInput

_COSTS = (
    "without it the cluster has no active controller: until it is back no topic, configuration or level changes, no "
    "broker registers, and no partition gets another leader"
)


def is_only_voter(inputs: RestartCheckInput, id_: int) -> bool:
    """Tell whether this node is the only voter of the quorum."""
    quorum = inputs.observation.quorum
    return isinstance(quorum, Known) and [voter.id for voter in quorum.value.voters] == [id_]


def refused_by_small_quorum(inputs: RestartCheckInput, id_: int, used_consent: str) -> Stalled | None:
    """Refusal to restart a voter of a quorum of one or two; None for any other node, and where the consent is given.

    `used_consent`: the consent that this restart has used already.
    """
    quorum = inputs.observation.quorum
    voters = {voter.id for voter in quorum.value.voters} if isinstance(quorum, Known) else set()
    if id_ not in voters or len(voters) > 2:
        return None
    title = inputs.title(id_)
    if len(voters) == 2:
        message = f"{title} cannot be restarted: a quorum of two voters has no majority without it"
        remedy = (
            "add a third controller, or remove one of the two from the quorum and add quorum-of-one to consents; the "
            "driver Manual has the same rule: to restart them yourself, set spec.workload.driver to None meanwhile"
        )
        return _stalled(inputs, id_, Reason.ROLLOUT_HALTED, message, remedy)
    state = state_of(QUORUM_OF_ONE, inputs.desired.consents, inputs.remembered.status.spent_consents)
    if state is ConsentState.GIVEN or used_consent == QUORUM_OF_ONE:
        return None
    message = f"{title} is the only voter of the quorum; {_COSTS}"
    if state is ConsentState.SPENT:
        remedy = (
            f"the consent {QUORUM_OF_ONE} was used by an earlier restart: remove it, apply the document, then add it "
            "again"
        )
        return _stalled(inputs, id_, Reason.CONSENT_SPENT, message, remedy)
    remedy = f"add controllers, or if this is acceptable, add {QUORUM_OF_ONE} to consents"
    return _stalled(inputs, id_, Reason.CONSENT_REQUIRED, message, remedy)


def _stalled(inputs: RestartCheckInput, id_: int, reason: Reason, message: str, remedy: str) -> Stalled:
    return stalled_by(Blocker(BlockerKind.QUORUM, message, remedy, nodes=inputs.nodes(id_), reason=reason))
