"""One reconciliation, the queue of them, and the two stores of a resource."""
