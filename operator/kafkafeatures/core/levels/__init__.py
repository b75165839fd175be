"""Finalized feature levels: checks before an update, the soak before an irreversible one, and the step itself."""
