"""`kafkafeatures pipeline`: tables over the metadata logs of many clusters."""
