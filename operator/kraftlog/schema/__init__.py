"""Record types as data: `types` is the vocabulary, `table` and `others` the entries, `writer` turns an entry into an
encoder; `decoders` beside this package holds the decoders that are made of the entries.

A record type is one entry. Nothing else in this package knows the layout of a body.
"""

from kraftlog.schema.table import BY_KEY, CONTROL_TYPES, METADATA_TYPES, NAMES
from kraftlog.schema.types import Array, Field, RecordType, Scalar, Struct

__all__ = ["BY_KEY", "CONTROL_TYPES", "METADATA_TYPES", "NAMES", "Array", "Field", "RecordType", "Scalar", "Struct"]
