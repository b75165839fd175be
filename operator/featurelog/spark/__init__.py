"""Reading on many cores or machines. The only place that knows Spark; the rest of the pipeline runs without it.

Workers get the code of `featurelog` with each task, by value: they need kraftlog, numpy, pyarrow and google-crc32c, and
nothing else of ours. Whoever changes a run need not install anything on them anew.
"""

import pyspark.cloudpickle

import featurelog

pyspark.cloudpickle.register_pickle_by_value(featurelog)
