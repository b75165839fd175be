"""Metadata logs recorded on disk, so that their history outlives what Kafka keeps."""
