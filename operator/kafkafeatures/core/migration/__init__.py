"""Migrations from ZooKeeper to KRaft (KIP-866, as Kafka 3.9 ships it), and back: position of a cluster, next step,
checks.

Terms that all modules here use:

position: one of ten states between ZooKeeper and KRaft (`positions.py`). way: from a position to the next (`edges.py`).
flag: the setting `zookeeper.metadata.migration.enable` of a broker or controller. quorum: the KRaft controllers.
`/controller`: the znode with the claim of the active controller, which is a broker until the quorum takes over.
`/migration`: the znode in which the quorum's active controller writes how much of its metadata log ZooKeeper has.
dual write: the time in which the quorum leads and still writes every change to ZooKeeper, so that there is a way back.
flying: nodes whose restart is under way, of which nothing is expected.
"""
