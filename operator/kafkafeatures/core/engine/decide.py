"""The one decision of a reconciliation: the answer of the first closed gate, else the next step.

Pure. Called by `reconcile/evaluate.py`. The order is that of `GATES`, for stages of all kinds.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done
from kafkafeatures.core.engine.gates import GATES, GateInput


def decide(question: GateInput) -> Decision:
    """Decision of the first gate that is closed; where none is, the next step of the stage whose turn it is."""
    closed = next((gate_decision for gate in GATES if (gate_decision := gate(question)) is not None), None)
    decision = closed or question.stage.next
    meanwhile = question.stage.meanwhile
    if meanwhile and not isinstance(decision, Act):
        decision = replace(decision, message=f"{decision.message}; {meanwhile}")
    notes = [stage.note for stage in question.stages if stage.note and not stage.is_due]
    if not notes or not isinstance(decision, Done):
        return decision
    return replace(decision, message="; ".join((decision.message, *notes)))
