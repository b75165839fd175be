"""The wire server: what the nodes of a world say to real clients, over Kafka's protocol on 127.0.0.1."""
