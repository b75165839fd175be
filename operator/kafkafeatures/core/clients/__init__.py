"""Clients that break with a release: counters of brokers, what they cover, and the verdict."""
