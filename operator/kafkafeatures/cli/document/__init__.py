"""Commands that carry out a document without Kubernetes: plan, apply."""
