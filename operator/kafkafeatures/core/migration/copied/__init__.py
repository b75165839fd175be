"""Metadata that Kafka copies from ZooKeeper in a migration: readers of its znodes, a dry run of the copy (`survey.py`),
and a comparison with the metadata log (`comparison.py`).

Both work on *entries*: one value each, such as a config of a topic, an ACL or a quota, under a key (`entries.py`).
"""
