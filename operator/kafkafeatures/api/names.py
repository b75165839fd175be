"""Names that users write and other software reads: one place for each."""

GROUP = "kafkafeatures.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KafkaFeatures"

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
