"""What every part of the adapter stands on: where a cluster is, connections to its nodes, rights, limits and errors."""
