"""The Kafka adapter: finds and probes nodes, follows the metadata log, and sends changes of levels. It makes no
decisions about a cluster: `core` does, on what is read here.
"""
