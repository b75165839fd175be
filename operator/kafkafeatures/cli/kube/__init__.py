"""Commands for a resource on Kubernetes, and the operator itself."""
