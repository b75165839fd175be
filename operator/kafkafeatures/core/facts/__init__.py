"""What was read of a cluster and what it proves, before anybody decides: readings, the one observation, its parts."""
