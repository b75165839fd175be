"""`kafkafeatures clients`: clients that break with a release of Kafka."""
