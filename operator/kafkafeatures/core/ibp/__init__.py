"""Changes of inter.broker.protocol.version (IBP), by which brokers in ZooKeeper mode agree on formats and requests, as
nodes in KRaft mode do by metadata.version.

A broker reads it from its file, so it is raised by a restart of each broker, after the roll to the new Kafka.
"""

INTER_BROKER_PROTOCOL = "InterBrokerProtocol"
"""Name of this kind of stage, as in `status.plan.stages`."""
