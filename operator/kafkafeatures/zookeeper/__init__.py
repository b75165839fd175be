"""ZooKeeper, as far as a cluster still keeps its metadata there: read in one session, through kazoo.

Imported only where a document or a flag names an ensemble.
"""
