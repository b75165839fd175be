"""The decision of a reconciliation: that of the first closed gate, else the next step of the stage whose turn it is.

Pure. Called by `reconcile/evaluate.py`. The order of the gates is that of `GATES` (`core/engine/gates.py`), for stages
of all kinds.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done
from kafkafeatures.core.engine.gates import GATES, GateInput


def decide(inputs: GateInput) -> Decision:
    """Decision of the first closed gate; if all are open, the next step of the stage whose turn it is.

    The message also says what the cluster lacks meanwhile and, where nothing is left to do, the notes of other stages.
    """
    closed = next((gate_decision for gate in GATES if (gate_decision := gate(inputs)) is not None), None)
    decision = closed or inputs.stage.next
    meanwhile = inputs.stage.meanwhile
    if meanwhile and not isinstance(decision, Act):
        decision = replace(decision, message=f"{decision.message}; {meanwhile}")
    notes = [stage.note for stage in inputs.stages if stage.note and not stage.is_due]
    if not notes or not isinstance(decision, Done):
        return decision
    return replace(decision, message="; ".join((decision.message, *notes)))
