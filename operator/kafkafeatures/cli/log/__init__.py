"""`kafkafeatures log`: what the files of a metadata log say."""
