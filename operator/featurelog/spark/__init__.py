"""Runs the pipeline on Spark, on many cores or machines. Only this package uses Spark.

Workers get the code that reads files by value, with each task, and the code that makes tables as a zip file. So a new
version of `featurelog` needs no installation on workers. They must have kraftlog, numpy, pyarrow, google-crc32c and
msgspec.
"""

import pyspark.cloudpickle

import featurelog

pyspark.cloudpickle.register_pickle_by_value(featurelog)
