"""Restarts of nodes: which node needs one, what must hold before it, and how far it has come back."""
