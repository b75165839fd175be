"""Metadata that Kafka copies from ZooKeeper in a migration: the znodes, what they say, and what is wrong with them."""
