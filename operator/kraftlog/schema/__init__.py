"""Layouts of record types as data: `types` has the types of these tables, `table` and `others` the entries, `writer`
makes encoders from entries. The package `kraftlog.decoders` compiles decoders of them.

Each record type is one entry; no other module has the layout of a body.
"""

from kraftlog.schema.table import BY_KEY, CONTROL_TYPES, METADATA_TYPES, NAMES
from kraftlog.schema.types import Array, Field, RecordType, Scalar, Struct

__all__ = ["BY_KEY", "CONTROL_TYPES", "METADATA_TYPES", "NAMES", "Array", "Field", "RecordType", "Scalar", "Struct"]
