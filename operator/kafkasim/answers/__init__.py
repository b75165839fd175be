"""Responses of the nodes of a simulated cluster, as typed messages that are not encoded yet."""
