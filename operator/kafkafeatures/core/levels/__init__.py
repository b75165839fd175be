"""Finalized feature levels: what prevents an update, its soak, and what cures a blocker."""
