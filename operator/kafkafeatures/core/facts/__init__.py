"""Facts about a cluster and what they prove, before any decision: readings, the one observation, its parts."""
