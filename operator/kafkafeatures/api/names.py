"""Names that users write and other software reads: one place for each."""

GROUP = "kafkafeatures.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KafkaFeatures"

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"

NAME, MAX_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", 253
"""Of a resource: what Kubernetes allows (RFC 1123 subdomain)."""
