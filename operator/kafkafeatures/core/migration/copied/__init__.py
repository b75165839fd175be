"""What Kafka copies from ZooKeeper when it migrates: which znodes, what they say, and what is wrong with them."""
