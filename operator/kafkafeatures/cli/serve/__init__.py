"""`kafkafeatures serve`: the pages of resources or of a cluster, live in a browser."""
