"""Changes of finalized feature levels (KIP-584): the checks before a change, the soak before an irreversible one, the
step, and its effects. `stage.py` begins with the algorithm.
"""
