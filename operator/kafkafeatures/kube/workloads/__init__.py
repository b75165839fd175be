"""How the nodes of a cluster are restarted where it runs: a file per driver, each a `WorkloadPort`."""
