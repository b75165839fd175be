"""The target inter.broker.protocol.version of a cluster in ZooKeeper mode: KIP-584's second roll."""
