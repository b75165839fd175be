"""The Kubernetes side of the drivers that restart pods: one module for each driver, each with a `WorkloadPort`."""
