"""HTML pages: a resource and its roll, a cluster, a fleet."""
