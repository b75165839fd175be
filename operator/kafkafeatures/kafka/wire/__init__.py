"""Kafka's protocol on one connection: messages and their codec, TLS, SASL, and the policy of permitted addresses."""
