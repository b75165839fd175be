"""What was read of a cluster and what it proves, before any decision: readings, the one observation, its parts."""
