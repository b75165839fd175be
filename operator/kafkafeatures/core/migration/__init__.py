"""From ZooKeeper to KRaft (KIP-866 as Kafka 3.9 ships it): where a cluster is on the way, and what comes next."""
