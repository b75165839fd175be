"""A simulated cluster on its way from ZooKeeper to KRaft: its ensemble, both of its controllers, and what copies."""
