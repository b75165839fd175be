"""Reading on many cores or machines. The only place that knows Spark; the rest of the pipeline runs without it.

Workers get the code of `featurelog` that reads with each task, by value, and the code that makes tables as a file: they
need kraftlog, numpy, pyarrow and google-crc32c, and nothing else of ours; without msgspec they only read. A changed run
needs no new installation on them.
"""

import pyspark.cloudpickle

import featurelog

pyspark.cloudpickle.register_pickle_by_value(featurelog)
