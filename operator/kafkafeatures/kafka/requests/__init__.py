"""The requests that change a cluster."""
