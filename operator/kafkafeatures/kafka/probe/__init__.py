"""Who is in the cluster, and what each node answers about itself."""
