"""`kafkafeatures log`: commands that read the files of a metadata log."""
