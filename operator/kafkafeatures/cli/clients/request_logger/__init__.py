"""The request log of brokers, switched on for a time by a person: `kafkafeatures clients evidence`."""
