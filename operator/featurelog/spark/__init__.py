"""Runs the pipeline on Spark, on many cores or machines. Only this package uses Spark.

Workers get the code of a run as a zip file, and the code of a data source by value, with each task. So a new version of
`featurelog` needs no installation on workers. They must have kraftlog, numpy, pyarrow, google-crc32c and msgspec.
"""
