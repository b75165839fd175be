"""The Kafka adapter: nodes are found and asked, the metadata log is followed, levels are sent. It judges nothing."""
