"""The one decision of a reconciliation: what holds the next step back, else the step itself.

Pure. Called by `reconcile/evaluate.py`. The order is that of `GATES`, for stages of all kinds.
"""

from __future__ import annotations

from kafkafeatures.core.engine.decisions import Decision
from kafkafeatures.core.engine.gates import GATES, Question


def decide(question: Question) -> Decision:
    """The first gate that is closed; the next step of the stage whose turn it is where none is."""
    for gate in GATES:
        held = gate(question)
        if held is not None:
            return held
    return question.stage.next
