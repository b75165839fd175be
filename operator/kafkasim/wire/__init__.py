"""The wire server: serves the nodes of a world to real clients, over Kafka's protocol on 127.0.0.1."""
