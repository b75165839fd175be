"""`kafkafeatures migration`: what a migration from ZooKeeper to KRaft needs, looked at before anything is touched."""
