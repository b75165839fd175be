"""Prometheus as a source of evidence about clients: its query API, and the scrapes that its series are."""
