"""The ZooKeeper adapter, by the client library kazoo, for clusters that still keep their metadata there.

Imported only where a document or a flag names an ensemble.
"""
