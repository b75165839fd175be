"""All partitions of a cluster: from its metadata log, else asked for."""
