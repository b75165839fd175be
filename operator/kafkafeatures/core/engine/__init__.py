"""Parts that all kinds of changes share: the plan and its stages, the gates before each step, and the decision.

Each reconciliation asks every kind of stage (`kind.py`) for a proposal, makes a plan of the proposals (`plan.py`), has
each kind judge its stage (`stage.py`), and takes one decision (`decide.py`, by the order of `gates.py`).
"""
