"""Record types as data: `types` is the vocabulary, `table` the entries, `compiler` turns an entry into a decoder and an
encoder.

A record type is one entry in `table`. Nothing else in this package knows the layout of a body.
"""

from kraftlog.schema.table import BY_KEY, CONTROL_TYPES, METADATA_TYPES, NAMES, RecordType
from kraftlog.schema.types import Array, Field, Scalar, Struct

__all__ = ["BY_KEY", "CONTROL_TYPES", "METADATA_TYPES", "NAMES", "Array", "Field", "RecordType", "Scalar", "Struct"]
