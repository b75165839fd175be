"""A simulated Kafka cluster: one world (state and rules, no I/O), and a wire server that speaks Kafka's protocol.

`world` holds what a cluster is, `rules` how its active controller judges feature updates, `wire` answers real clients
on 127.0.0.1. Whenever a real node answers differently, the simulator is wrong.
"""
