"""Logs of brokers as files and containers keep them: their lines, request lines, and what these are reduced to."""
