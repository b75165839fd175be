"""Common parts of the adapter: connection settings, the pool of connections, rights, memory limits and errors."""
