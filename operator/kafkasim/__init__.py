"""A simulated Kafka cluster: one world (state and rules, no I/O), and a wire server that speaks Kafka's protocol.

`world` has the state of a cluster and changes it, `rules` judges feature updates like the active controller, `answers`
makes responses, and `wire` serves them to real clients on 127.0.0.1. `connection` and `ports` connect the product's own
code without a network. Whenever a real node answers differently, the simulator is wrong.
"""
