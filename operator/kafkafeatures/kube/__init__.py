"""The Kubernetes adapter: resources and their statuses, Secrets and ConfigMaps, Events, and pods."""
