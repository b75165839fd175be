"""Writes the decoders: a module per record type in `kraftlog/decoders`, a function per version in it.

A function is straight: it takes the fields one behind the other, those of a fixed size together, and judges
each length against what is left before it takes anything. A cut number or length shows as an IndexError or a
`struct.error`, and a text that is none as a UnicodeDecodeError; `records` answers for the three.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kraftlog.schema.types import Array, Field, Layout, RecordType, Scalar, Struct

_FIXED = {
    Scalar.BOOL: ("B", 1), Scalar.INT8: ("b", 1), Scalar.INT16: ("h", 2), Scalar.UINT16: ("H", 2),
    Scalar.INT32: ("i", 4), Scalar.INT64: ("q", 8), Scalar.FLOAT64: ("d", 8), Scalar.UUID: ("16s", 16),
}  # fmt: skip
_HELPERS = ("Readers", "bytes_missing", "no_boolean", "no_null", "other_tags", "read_unsigned", "tags_out_of_order",
            "too_many", "uuid_of", "wrong_value_size")  # fmt: skip


def module(kind: RecordType) -> str:
    """The text of the module of a type, as yet unformatted."""
    return Writer().module(kind)


def snake(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return (
        f"{words}_" if keyword.iskeyword(words) or hasattr(builtins, words) or words in {"at", "end", "data"} else words
    )


@dataclass
class Writer:
    """The functions of one module; what two versions share is written once."""

    functions: dict[str, str] = field(default_factory=dict)
    """Body -> name."""
    formats: dict[str, str] = field(default_factory=dict)
    """Format of fixed fields -> name."""

    def module(self, kind: RecordType) -> str:
        """The text of the module of a type."""
        readers = []
        for version in range(kind.last_version + 1):
            pairs = [(self.version(layout, version), layout.name) for layout in kind.layouts]
            readers.append("(" + "".join(f'({name}, "{layout}"),' for name, layout in pairs) + ")")
        code = "\n\n".join(f"def {name}{body}" for body, name in self.functions.items())
        formats = "\n".join(f'{name} = Struct(">{form}")' for form, name in self.formats.items())
        lines = [
            f'"""{kind.name}, {"version 0" if not kind.last_version else f"versions 0 to {kind.last_version}"}.',
            "",
            "Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            *imports(f"{formats}\n{code}\nREADERS: Readers"),
            "",
            formats,
            "",
            code,
            "",
            f"READERS: Readers = ({''.join(f'{reader},' for reader in readers)})",
        ]
        return "\n".join(lines) + "\n"

    def version(self, layout: Layout, version: int) -> str:
        """The function of a version."""
        suffix = f"_of_{layout.name.replace('.', '_').replace('-', '_to_')}" if layout.name else ""
        lines, entries = self.plain(layout.fields, version, "end", f"_v{version}{suffix}")
        body = ["(data: bytes, at: int) -> tuple[dict[str, Any], int]:", "    end = len(data)"]
        body += lines + self.close(layout.fields, version, entries, f"_v{version}{suffix}")
        body.append("    return fields, at")
        if not any("end" in line for line in body[2:]):
            del body[1]
        return self.function(body, f"_v{version}{suffix}")

    def function(self, body: Sequence[str], name: str) -> str:
        """The name under which this function is written: that of an equal one, if there is one."""
        text = "\n".join(body) + "\n"
        if text not in self.functions:
            while name in self.functions.values():
                name += "_"
            self.functions[text] = name
        return self.functions[text]

    def close(self, struct: Struct, version: int, entries: Sequence[str], name: str, into: str = "fields") -> list[str]:
        """The dict of the plain fields, and the tagged section behind them."""
        lines = [f"    {into}: dict[str, Any] = {{{', '.join(entries)}}}", *length("count")]
        tagged = [member for member in struct.fields if member.tag is not None and member.since <= version]
        reader, argument = self.tags(struct, name, version) if tagged else ("other_tags", "")
        return [*lines, "    if count:", f"        at = {reader}(data, at, end, count, {into}{argument})"]

    def tags(self, struct: Struct, name: str, version: int) -> tuple[str, str]:
        """The function that reads a tagged section, for every version that has tags of its own; and the argument by
        which it gets the version.
        """
        tagged = [member for member in struct.fields if member.tag is not None]
        first = min(member.since for member in tagged)
        versioned = any(member.since > first for member in tagged)
        argument = ", version: int" if versioned else ""
        body = [
            f"(data: bytes, at: int, end: int, count: int, fields: dict[str, Any]{argument}) -> int:",
            "    previous = -1",
            "    unknown = []",
            "    for _ in range(count):",
            *indented([*length("tag"), *length("size")]),
            "        if tag <= previous:",
            "            raise tags_out_of_order(tag, previous)",
            "        previous = tag",
            "        stop = at + size",
            "        if stop > end:",
            "            raise bytes_missing(size, at, end)",
        ]
        word = "if"
        for member in sorted(tagged, key=lambda member: member.tag or 0):
            variable = snake(member.name)
            since = f" and version >= {member.since}" if member.since > first else ""
            body += [f"        {word} tag == {member.tag}{since}:"]
            body += indented(self.value(member, member.since, "stop", variable, name), 2)
            body += [f'            fields["{member.name}"] = {entry(member, variable)}']
            body += ["            if at != stop:", f'                raise wrong_value_size("{member.name}", at, stop)']
            word = "elif"
        body += [
            "        else:",
            "            unknown.append((tag, data[at:stop]))",
            "            at = stop",
            "    if unknown:",
            "        fields[UNKNOWN_TAGS] = tuple(unknown)",
            "    return at",
        ]
        return self.function(body, "_tags"), f", {version}" if versioned else ""

    def plain(self, struct: Struct, version: int, end: str, name: str) -> tuple[list[str], list[str]]:
        """The fields without a tag: the lines that read them, and the entries of the dict."""
        fields = [member for member in struct.fields if member.tag is None and member.since <= version]
        lines: list[str] = []
        for run in _runs(fields):
            if len(run) == 1 and run[0].type not in _FIXED:
                lines += self.value(run[0], version, end, snake(run[0].name), name)
            else:
                lines += self.fixed(run)
        return lines, [f'"{member.name}": {entry(member, snake(member.name))}' for member in fields]

    def fixed(self, run: Sequence[Field]) -> list[str]:
        """Fields of fixed sizes, all at once."""
        kinds = [_FIXED[member.type] for member in run if isinstance(member.type, Scalar)]
        form, size = "".join(kind[0] for kind in kinds), sum(kind[1] for kind in kinds)
        name = "_" + "_".join(member.type.name for member in run if isinstance(member.type, Scalar))
        self.formats[form] = name
        names = ", ".join(snake(member.name) for member in run)
        lines = [f"    {names}{',' if len(run) == 1 else ''} = {name}.unpack_from(data, at)", f"    at += {size}"]
        for member in run:
            if member.type is Scalar.BOOL:
                variable = snake(member.name)
                lines += [f"    if {variable} > 1:", f'        raise no_boolean("{member.name}", {variable})']
        return lines

    def value(self, member: Field, version: int, end: str, variable: str, name: str) -> list[str]:
        """Lines that read a field into a variable."""
        kind = member.type
        if kind in _FIXED:
            return self.fixed([member])
        if isinstance(kind, Struct):
            reader = self.struct(kind, version, f"{name}_{variable}")
            return [f"    {variable}, at = {reader}(data, at, {end})"]
        if isinstance(kind, Scalar):
            return self.text_or_bytes(member, kind, end, variable)
        return self.array(member, kind, version, end, variable, name)

    def text_or_bytes(self, member: Field, kind: Scalar, end: str, variable: str) -> list[str]:
        stop = "stop" if end == "end" else "behind"
        lines = [
            f"    {stop} = at + size - 1",
            f"    if {stop} > {end}:",
            f"        raise bytes_missing(size - 1, at, {end})",
            f"    {variable} = data[at:{stop}]{'.decode()' if kind is Scalar.STRING else ''}",
            f"    at = {stop}",
        ]
        return [*length("size"), *self.if_null(member, variable, lines, "str" if kind is Scalar.STRING else "bytes")]

    def array(self, member: Field, kind: Array, version: int, end: str, variable: str, name: str) -> list[str]:
        least = _least(kind.of, version)
        share = f"({end} - at) // {least}" if least > 1 else f"{end} - at"
        lines = [f"    if size - 1 > {share}:", f'        raise too_many("{member.name}", size - 1, {end} - at)']
        if kind.of in (Scalar.INT32, Scalar.UUID):
            of = "int" if kind.of is Scalar.INT32 else "UUID"
            lines += scalars(kind.of, variable)
            return [*length("size"), *self.if_null(member, variable, lines, f"tuple[{of}, ...]")]
        reader = self.items(member, kind, version, name)
        lines += [f"    {variable}, at = {reader}(data, at, {end}, size - 1)"]
        return [*length("size"), *self.if_null(member, variable, lines, "tuple[Any, ...]")]

    def items(self, member: Field, kind: Array, version: int, name: str) -> str:
        """The function that reads the items of an array."""
        body = ["(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:", "    values = []"]
        body += ["    for _ in range(items):"]
        if isinstance(kind.of, Struct):
            lines, entries = self.plain(kind.of, version, "end", f"{name}_{snake(member.name)}")
            lines += self.close(kind.of, version, entries, f"{name}_{snake(member.name)}", "each")
            body += [*indented(lines), "        values.append(each)"]
        else:
            item = Field("each", kind.of)
            body += [*indented(self.value(item, version, "end", "each", name)), "        values.append(each)"]
        body.append("    return tuple(values), at")
        return self.function(body, f"_items_of_{snake(member.name)}")

    def struct(self, struct: Struct, version: int, name: str) -> str:
        """The function that reads a struct that is a field."""
        lines, entries = self.plain(struct, version, "end", name)
        body = ["(data: bytes, at: int, end: int) -> tuple[dict[str, Any], int]:", *lines]
        return self.function(
            [*body, *self.close(struct, version, entries, name), "    return fields, at"], f"_struct{name}"
        )

    def if_null(self, member: Field, variable: str, lines: Sequence[str], kind: str) -> list[str]:
        """Handle a length of 0, which means null, in front of these lines."""
        if member.nullable:
            return ["    if not size:", f"        {variable}: {kind} | None = None", "    else:", *indented(lines)]
        return ["    if not size:", f'        raise no_null("{member.name}")', *lines]


def _runs(fields: Sequence[Field]) -> Iterator[list[Field]]:
    run: list[Field] = []
    for member in fields:
        if member.type in _FIXED:
            run.append(member)
            continue
        if run:
            yield run
        yield [member]
        run = []
    if run:
        yield run


def imports(code: str) -> list[str]:
    """The imports that the code of a module needs."""
    of_struct = [f"from struct import {name}" for name in ("Struct", "unpack_from") if f" {name}(" in code]
    of_typing = ["from typing import Any"] if "Any" in code else []
    of_uuid = ["from uuid import UUID"] if re.search(r"\bUUID\b", code) else []
    used = [name for name in _HELPERS if re.search(rf"\b{name}\b", code)]
    of_types = ["from kraftlog.schema.types import UNKNOWN_TAGS"] if "UNKNOWN_TAGS" in code else []
    return [*of_struct, *of_typing, *of_uuid, "", f"from kraftlog.decoders.parts import {', '.join(used)}", *of_types]


def entry(member: Field, variable: str) -> str:
    """The value of a field in the dict, as code."""
    if member.type is Scalar.BOOL:
        return f"{variable} == 1"
    return f"uuid_of({variable})" if member.type is Scalar.UUID else variable


def scalars(kind: Scalar | Struct, variable: str) -> list[str]:
    """The items of an array of numbers, or of uuids."""
    if kind is Scalar.INT32:
        return [f'    {variable} = unpack_from(f">{{size - 1}}i", data, at)', "    at += (size - 1) * 4"]
    return [
        "    behind = at + (size - 1) * 16",
        f"    {variable} = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])",
        "    at = behind",
    ]


def length(variable: str) -> list[str]:
    """A length, a count or a tag; nearly all are of one byte."""
    return [
        f"    {variable} = data[at]",
        "    at += 1",
        f"    if {variable} > 127:",
        f"        {variable}, at = read_unsigned(data, at - 1)",
    ]


def indented(lines: Sequence[str], times: int = 1) -> list[str]:
    return ["    " * times + line for line in lines]


def _least(kind: Scalar | Struct, version: int) -> int:
    """Bytes that an item takes at least."""
    if isinstance(kind, Scalar):
        return _FIXED[kind][1] if kind in _FIXED else 1
    plain = [member for member in kind.fields if member.tag is None and member.since <= version]
    return 1 + sum(_least(member.type, version) if isinstance(member.type, (Scalar, Struct)) else 1 for member in plain)
