"""Records metadata logs on disk, so that their history is kept for longer than Kafka keeps it."""
