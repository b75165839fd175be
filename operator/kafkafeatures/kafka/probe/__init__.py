"""Discovers the nodes of a cluster and probes each: supported APIs and features, quorum, settings, rights."""
