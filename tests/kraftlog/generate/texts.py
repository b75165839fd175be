"""Writes the modules in `kraftlog/texts`: functions that read as the decoders do, and give JSON text.

Only what is made of a field differs: a variable holds its text (of a number of fixed size itself), which goes into the
f-string of its struct. Tags that no table knows are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftlog.schema.types import Field, RecordType, Scalar, Struct
from tests.kraftlog.generate.decoders import HELPERS, Writer, length, parts, snake


def module(kind: RecordType) -> str:
    """The text of the module of a type, as yet unformatted."""
    return _TextWriter().module(kind)


class _TextWriter(Writer):
    made = of_items = "str"
    all_items = "f\"[{','.join(every)}]\""

    def module(self, kind: RecordType) -> str:
        today = kind.layouts[0]
        return self.text(kind, "TEXTS: Texts", [self.version(today, one) for one in range(kind.last_version + 1)])

    def imports(self, code: str) -> list[str]:
        own = ("BOOLEANS", "Texts", "numbers", "quoted", "unknown_tag", "uuid", "uuids", "written")
        of_struct = ["from struct import Struct"] if "Struct(" in code else []
        return [*of_struct, "", *parts("decoders", HELPERS, code), *parts("texts", own, code)]

    def close(self, struct: Struct, version: int, entries: Sequence[str], name: str, into: str = "found") -> list[str]:
        tagged = [one for one in struct.fields if one.tag is not None and one.since <= version]
        lines = length("count")
        if tagged:
            reader, given = self.tags(struct, name, version)
            lines += ['    tags = ""', "    if count:", f"        tags, at = {reader}(data, at, end, count{given})"]
            entries = [*entries, "{tags}" if entries else "{tags[1:]}"]  # each begins with a comma
        else:
            lines += ["    if count:", "        raise unknown_tag(data[at])"]
        if not entries:
            return [*lines, f'    {into} = "{{}}"']
        return [*lines, f"    {into} = (", *(f"        f'{one}'" for one in ("{{", *entries, "}}")), "    )"]

    def before_tags(self, version: str) -> list[str]:
        head = f"(data: bytes, at: int, end: int, count: int{version}) -> tuple[str, int]:"
        return [head, "    previous = -1", '    text = ""']

    def tag(self, one: Field, variable: str) -> str:
        return f"""text += f',"{one.name}":{self.entry(one, variable)}'"""

    def after_tags(self) -> list[str]:
        return ["        else:", "            raise unknown_tag(tag)", "    return text, at"]

    def plain_entries(self, fields: Sequence[Field]) -> list[str]:
        return [
            f"""{"," if number else ""}"{one.name}":{self.entry(one, snake(one.name))}"""
            for number, one in enumerate(fields)
        ]

    def entry(self, one: Field, variable: str) -> str:
        if one.type is Scalar.BOOL:
            return f"{{BOOLEANS[{variable}]}}"
        if one.type is Scalar.UUID:
            return f"{{uuid({variable})}}"
        return f"{{written({variable})}}" if one.type is Scalar.FLOAT64 else f"{{{variable}}}"

    def taken(self, kind: Scalar, piece: str) -> str:
        if kind is not Scalar.STRING:
            raise ValueError(f"a field of {kind}: of bytes, which are secret, no text is written")
        return f"quoted({piece}.decode())"

    def scalars(self, kind: Scalar | Struct, variable: str) -> list[str]:
        size, write = (4, "numbers") if kind is Scalar.INT32 else (16, "uuids")
        return [
            f"    behind = at + (size - 1) * {size}",
            f"    {variable} = {write}(data[at:behind])",
            "    at = behind",
        ]

    def null(self, variable: str, kind: str) -> str:
        return f'{variable} = "null"'
