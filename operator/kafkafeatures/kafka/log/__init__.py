"""Readers of the metadata log: finding its leader, following its end, and reading its past."""
