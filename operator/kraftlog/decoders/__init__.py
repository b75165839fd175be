"""Decoders of record bodies, compiled from the schema tables when the first record of a type is decoded.

A decoder takes the bytes of a record and the position of the body, and gives the fields and the position behind the
body. It raises MalformedError, and what it leaves to its caller: IndexError, struct.error and UnicodeDecodeError.
"""
