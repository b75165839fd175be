"""Compiles the decoders of a record type from its schema table, as `dataclasses` compile their methods.

Called by `records`, once for each type that a log has; the text that is compiled is made of the tables alone. There is
a function for each version. It is straight: it takes the fields one behind the other, those of a fixed size together,
and judges each length against what is left before it takes anything. A cut number or length shows as an IndexError or
a `struct.error`, and a text that is none as a UnicodeDecodeError; `records` answers for the three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from struct import Struct as Numbers
from struct import unpack_from
from typing import Any

from kraftlog.decoders import parts
from kraftlog.schema.types import Array, Field, Layout, RecordType, Scalar, Struct

_FIXED = {
    Scalar.BOOL: ("B", 1), Scalar.INT8: ("b", 1), Scalar.INT16: ("h", 2), Scalar.UINT16: ("H", 2),
    Scalar.INT32: ("i", 4), Scalar.INT64: ("q", 8), Scalar.FLOAT64: ("d", 8), Scalar.UUID: ("16s", 16),
}  # fmt: skip


def readers(kind: RecordType) -> parts.Readers:
    """The decoders of a type."""
    return _Functions(kind.name).readers(kind)


@dataclass
class _Functions:
    """The functions of one type; those that are equal are compiled once."""

    title: str
    """Where tracebacks and profiles say that a function is."""
    names: dict[str, str] = field(default_factory=dict)
    """Text behind `def` and the name -> name."""
    namespace: dict[str, Any] = field(default_factory=lambda: {**vars(parts), "unpack_from": unpack_from})
    """Global names of the functions: what they call, the formats of fixed fields, and themselves."""

    def readers(self, kind: RecordType) -> parts.Readers:
        """The functions of all versions."""
        versions = range(kind.last_version + 1)
        return tuple(tuple((self.version(each, number), each.name) for each in kind.layouts) for number in versions)

    def version(self, layout: Layout, version: int) -> parts.Reader:
        """The function of a version."""
        body = ["(data, at):", "    end = len(data)", *self.struct(layout.fields, version), "    return fields, at"]
        reader: parts.Reader = self.namespace[self.function(body, f"version_{version}")]
        return reader

    def function(self, body: Sequence[str], name: str) -> str:
        """The name under which this function is compiled: that of an equal one, if there is one."""
        text = "\n".join(body)
        if text not in self.names:
            name = f"{name}_{len(self.names)}"
            self.names[text] = name
            code = compile(f"def {name}{text}", f"<kraftlog {self.title}>", "exec")
            exec(code, self.namespace)  # noqa: S102 - made of the tables of this package, as said above
        return self.names[text]

    def struct(self, struct: Struct, version: int) -> list[str]:
        """The lines that read a struct into the dict `fields`: its plain fields, and the tagged section behind them."""
        plain = [member for member in struct.fields if member.tag is None and member.since <= version]
        tagged = [member for member in struct.fields if member.tag is not None and member.since <= version]
        lines: list[str] = []
        for run in _runs(plain):
            lines += self.fixed(run) if run[0].type in _FIXED else self.value(run[0], version, "end")
        entries = ", ".join(f'"{member.name}": {_entry(member)}' for member in plain)
        reader = self.tags(tagged, version) if tagged else "other_tags"
        return [
            *lines,
            f"    fields = {{{entries}}}",
            *_length("count"),
            "    if count:",
            f"        at = {reader}(data, at, end, count, fields)",
        ]

    def tags(self, tagged: Sequence[Field], version: int) -> str:
        """The function that reads a tagged section with these fields."""
        body = [
            "(data, at, end, count, fields):",
            "    previous = -1",
            "    unknown = []",
            "    for _ in range(count):",
            *_indented([*_length("tag"), *_length("size")]),
            "        if tag <= previous:",
            "            raise tags_out_of_order(tag, previous)",
            "        previous = tag",
            "        stop = at + size",
            "        if stop > end:",
            "            raise bytes_missing(size, at, end)",
        ]
        word = "if"
        for member in tagged:
            body += [f"        {word} tag == {member.tag}:"]
            body += _indented(self.value(member, version, "stop"), 2)
            body += [f'            fields["{member.name}"] = {_entry(member)}']
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
        return self.function(body, "tags")

    def fixed(self, run: Sequence[Field]) -> list[str]:
        """The lines that read fields of fixed sizes, all at once."""
        kinds = [_FIXED[member.type] for member in run if isinstance(member.type, Scalar)]
        letters, size = "".join(kind[0] for kind in kinds), sum(kind[1] for kind in kinds)
        self.namespace[f"fixed_{letters}"] = Numbers(f">{letters}")
        names = "".join(f"{_variable(member)}, " for member in run)
        lines = [f"    {names}= fixed_{letters}.unpack_from(data, at)", f"    at += {size}"]
        for member in run:
            if member.type is Scalar.BOOL:
                variable = _variable(member)
                lines += [f"    if {variable} > 1:", f'        raise no_boolean("{member.name}", {variable})']
        return lines

    def value(self, member: Field, version: int, end: str) -> list[str]:
        """The lines that read a field into its variable; `end` is the variable of the position it may reach."""
        kind = member.type
        if kind in _FIXED:
            return self.fixed([member])
        if isinstance(kind, Struct):
            reader = self.function(["(data, at, end):", *self.struct(kind, version), "    return fields, at"], "struct")
            return [f"    {_variable(member)}, at = {reader}(data, at, {end})"]
        lines = self.array(member, kind, version, end) if isinstance(kind, Array) else _text_or_bytes(member, end)
        if member.nullable:
            null = [f"        {_variable(member)} = None", "    else:", *_indented(lines)]
        else:
            null = [f'        raise no_null("{member.name}")', *lines]
        return [*_length("size"), "    if not size:", *null]

    def array(self, member: Field, kind: Array, version: int, end: str) -> list[str]:
        """The lines that read an array whose length is in `size`."""
        least = _least(kind.of, version)
        variable = _variable(member)
        lines = [
            f"    if size - 1 > ({end} - at) // {least}:",
            f'        raise too_many("{member.name}", size - 1, {end} - at)',
        ]
        if kind.of is Scalar.INT32:
            return [*lines, f'    {variable} = unpack_from(f">{{size - 1}}i", data, at)', "    at += (size - 1) * 4"]
        if kind.of is Scalar.UUID:
            return [
                *lines,
                "    behind = at + (size - 1) * 16",
                f"    {variable} = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])",
                "    at = behind",
            ]
        return [*lines, f"    {variable}, at = {self.items(kind.of, version)}(data, at, {end}, size - 1)"]

    def items(self, kind: Scalar | Struct, version: int) -> str:
        """The function that reads the items of an array."""
        if isinstance(kind, Struct):
            lines, item = self.struct(kind, version), "fields"
        else:
            each = Field("each", kind)
            lines, item = self.value(each, version, "end"), _entry(each)
        lines = _indented([*lines, f"    values.append({item})"])
        body = ["(data, at, end, items):", "    values = []", "    for _ in range(items):", *lines]
        return self.function([*body, "    return tuple(values), at"], "items")


def _text_or_bytes(member: Field, end: str) -> list[str]:
    """The lines that read a text, or bytes, whose length is in `size`."""
    stop = "stop" if end == "end" else "behind"
    return [
        f"    {stop} = at + size - 1",
        f"    if {stop} > {end}:",
        f"        raise bytes_missing(size - 1, at, {end})",
        f"    {_variable(member)} = data[at:{stop}]{'.decode()' if member.type is Scalar.STRING else ''}",
        f"    at = {stop}",
    ]


def _runs(fields: Sequence[Field]) -> Iterator[list[Field]]:
    """Fields in their order: those of fixed sizes that follow each other together, each other one alone."""
    for is_fixed, members in groupby(fields, lambda member: member.type in _FIXED):
        run = list(members)
        yield from [run] if is_fixed else ([member] for member in run)


def _variable(member: Field) -> str:
    """The variable of a field; no field begins with an underscore, so no other name is shadowed."""
    return f"_{member.name}"


def _entry(member: Field) -> str:
    """The value of a field in the dict, as code."""
    variable = _variable(member)
    if member.type is Scalar.BOOL:
        return f"{variable} == 1"
    return f"uuid_of({variable})" if member.type is Scalar.UUID else variable


def _length(variable: str) -> list[str]:
    """The lines that read a length, a count or a tag; nearly all are of one byte."""
    return [
        f"    {variable} = data[at]",
        "    at += 1",
        f"    if {variable} > 127:",
        f"        {variable}, at = read_unsigned(data, at - 1)",
    ]


def _indented(lines: Sequence[str], times: int = 1) -> list[str]:
    return ["    " * times + line for line in lines]


def _least(kind: Scalar | Array | Struct, version: int) -> int:
    """Bytes that a value takes at least."""
    if isinstance(kind, Struct):
        plain = [member for member in kind.fields if member.tag is None and member.since <= version]
        return 1 + sum(_least(member.type, version) for member in plain)
    return _FIXED[kind][1] if kind in _FIXED else 1
