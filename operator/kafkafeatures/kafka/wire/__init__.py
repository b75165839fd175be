"""Kafka's protocol on one connection: messages and their codec, TLS, SASL, and which addresses may be connected to."""
