"""Readers of all partitions of a cluster: from its metadata log, or, where that cannot be read, by requests to
brokers.
"""
