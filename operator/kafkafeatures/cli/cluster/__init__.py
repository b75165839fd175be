"""Commands that reach a cluster and need no document: describe, init, unregister."""
