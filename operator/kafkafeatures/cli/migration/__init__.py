"""`kafkafeatures migration`: checks what a migration from ZooKeeper to KRaft needs, without changing anything."""
