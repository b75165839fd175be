"""The pipeline: makes tables from the metadata logs of many clusters.

It reads copies of what brokers and controllers keep (`layout`), never a live cluster, and changes nothing there.
Records are decoded by `kraftlog`; Spark is one way to run it and never the only one.
"""

import os

os.environ.setdefault("RUST_LOG", "error")
"""delta-rs reads it when it is imported. It would print warnings beside the error that a run ends with."""
