"""Decoders of record bodies, made of the schema tables: a module per type, loaded when a record of it is decoded.

`python -m tests.kraftlog.generate` writes them; `parts` and this file are written by hand. Called by `records` alone. A
decoder takes the bytes of a record and the position of the body, and gives the fields and the position behind the body.
It raises MalformedError, and what it leaves to its caller: IndexError, struct.error and UnicodeDecodeError.
"""
