"""Writes the decoders: a module per record type in `kraftlog/decoders`, a function per version in it.

What a function does is straight: it takes the fields one behind the other, those of a fixed size together, and judges
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
HELPERS = ("beyond", "misfit", "no_boolean", "no_null", "order", "read_unsigned", "too_many")


def module(kind: RecordType) -> str:
    """The text of the module of a type, as yet unformatted."""
    return Writer().module(kind)


def snake(name: str) -> str:
    found = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return (
        f"{found}_" if keyword.iskeyword(found) or hasattr(builtins, found) or found in {"at", "end", "data"} else found
    )


@dataclass
class Writer:
    """The functions of one module; what two versions share is written once."""

    functions: dict[str, str] = field(default_factory=dict)
    """Body -> name."""
    formats: dict[str, str] = field(default_factory=dict)
    """Format of fixed fields -> name."""

    made, of_items = "dict[str, Any]", "tuple[Any, ...]"
    """What a function gives: of a struct, of an array."""
    all_items = "tuple(every)"
    """How the list of the items of an array becomes that."""
    own = ("Readers", "other_tags", "uuid_of")
    """What its module needs of `kraftlog.decoders.parts`, beside what all need."""

    def module(self, kind: RecordType) -> str:
        """The text of the module of a type."""
        readers = []
        for version in range(kind.last_version + 1):
            found = [(self.version(layout, version), layout.name) for layout in kind.layouts]
            readers.append("(" + "".join(f'({name}, "{layout}"),' for name, layout in found) + ")")
        return self.text(kind, "READERS: Readers", readers)

    def text(self, kind: RecordType, what: str, versions: Sequence[str]) -> str:
        """The functions, and behind them what is found by version."""
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
            *self.imports(f"{formats}\n{code}\n{what}"),
            "",
            formats,
            "",
            code,
            "",
            f"{what} = ({''.join(f'{one},' for one in versions)})",
        ]
        return "\n".join(lines) + "\n"

    def imports(self, code: str) -> list[str]:
        """What the module needs."""
        of_struct = [f"from struct import {name}" for name in ("Struct", "unpack_from") if f" {name}(" in code]
        of_typing = ["from typing import Any"] if "Any" in code else []
        of_uuid = ["from uuid import UUID"] if re.search(r"\bUUID\b", code) else []
        of_types = ["from kraftlog.schema.types import UNKNOWN_TAGS"] if "UNKNOWN_TAGS" in code else []
        return [*of_struct, *of_typing, *of_uuid, "", *parts("decoders", (*self.own, *HELPERS), code), *of_types]

    def version(self, layout: Layout, version: int) -> str:
        """The function of a version."""
        suffix = f"_of_{layout.name.replace('.', '_').replace('-', '_to_')}" if layout.name else ""
        lines, entries = self.plain(layout.fields, version, "end", f"_v{version}{suffix}")
        body = [f"(data: bytes, at: int) -> tuple[{self.made}, int]:", "    end = len(data)"]
        body += lines + self.close(layout.fields, version, entries, f"_v{version}{suffix}")
        body.append("    return found, at")
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

    def close(self, struct: Struct, version: int, entries: Sequence[str], name: str, into: str = "found") -> list[str]:
        """The dict of the plain fields, and the tagged section behind them."""
        lines = [f"    {into}: dict[str, Any] = {{{', '.join(entries)}}}", *length("count")]
        tagged = [one for one in struct.fields if one.tag is not None and one.since <= version]
        reader, given = self.tags(struct, name, version) if tagged else ("other_tags", "")
        return [*lines, "    if count:", f"        at = {reader}(data, at, end, count, {into}{given})"]

    def tags(self, struct: Struct, name: str, version: int) -> tuple[str, str]:
        """The function that reads a tagged section, for every version that has tags of its own; and the argument by
        which it gets the version.
        """
        tagged = [one for one in struct.fields if one.tag is not None]
        first = min(one.since for one in tagged)
        versioned = any(one.since > first for one in tagged)
        body = [
            *self.before_tags(", version: int" if versioned else ""),
            "    for _ in range(count):",
            *indented([*length("tag"), *length("size")]),
            "        if tag <= previous:",
            "            raise order(tag, previous)",
            "        previous = tag",
            "        stop = at + size",
            "        if stop > end:",
            "            raise beyond(size, at, end)",
        ]
        word = "if"
        for one in sorted(tagged, key=lambda one: one.tag or 0):
            variable = snake(one.name)
            since = f" and version >= {one.since}" if one.since > first else ""
            body += [f"        {word} tag == {one.tag}{since}:"]
            body += indented(self.value(one, one.since, "stop", variable, name), 2)
            body += [f"            {self.tag(one, variable)}"]
            body += ["            if at != stop:", f'                raise misfit("{one.name}", at, stop)']
            word = "elif"
        return self.function([*body, *self.after_tags()], "_tags"), f", {version}" if versioned else ""

    def before_tags(self, version: str) -> list[str]:
        """How the function of a tagged section begins."""
        head = f"(data: bytes, at: int, end: int, count: int, found: dict[str, Any]{version}) -> int:"
        return [head, "    previous = -1", "    unknown = []"]

    def tag(self, one: Field, variable: str) -> str:
        """What becomes of a tagged field."""
        return f'found["{one.name}"] = {self.entry(one, variable)}'

    def after_tags(self) -> list[str]:
        """What becomes of other tags, and the end."""
        other = ["        else:", "            unknown.append((tag, data[at:stop]))", "            at = stop"]
        return [*other, "    if unknown:", "        found[UNKNOWN_TAGS] = tuple(unknown)", "    return at"]

    def plain(self, struct: Struct, version: int, end: str, name: str) -> tuple[list[str], list[str]]:
        """The fields without a tag: the lines that read them, and the entries of the dict."""
        fields = [one for one in struct.fields if one.tag is None and one.since <= version]
        lines: list[str] = []
        for run in _runs(fields):
            if len(run) == 1 and run[0].type not in _FIXED:
                lines += self.value(run[0], version, end, snake(run[0].name), name)
            else:
                lines += self.fixed(run)
        return lines, self.plain_entries(fields)

    def plain_entries(self, fields: Sequence[Field]) -> list[str]:
        """What becomes of the fields without a tag, which are in variables of their names."""
        return [f'"{one.name}": {self.entry(one, snake(one.name))}' for one in fields]

    def fixed(self, run: Sequence[Field]) -> list[str]:
        """Fields of fixed sizes, all at once."""
        kinds = [_FIXED[one.type] for one in run if isinstance(one.type, Scalar)]
        form, size = "".join(kind[0] for kind in kinds), sum(kind[1] for kind in kinds)
        name = "_" + "_".join(one.type.name for one in run if isinstance(one.type, Scalar))
        self.formats[form] = name
        names = ", ".join(snake(one.name) for one in run)
        lines = [f"    {names}{',' if len(run) == 1 else ''} = {name}.unpack_from(data, at)", f"    at += {size}"]
        for one in run:
            if one.type is Scalar.BOOL:
                variable = snake(one.name)
                lines += [f"    if {variable} > 1:", f'        raise no_boolean("{one.name}", {variable})']
        return lines

    def entry(self, one: Field, variable: str) -> str:
        """What goes into the dict."""
        if one.type is Scalar.BOOL:
            return f"{variable} == 1"
        return f"uuid_of({variable})" if one.type is Scalar.UUID else variable

    def value(self, one: Field, version: int, end: str, variable: str, name: str) -> list[str]:
        """Lines that read a field into a variable."""
        kind = one.type
        if kind in _FIXED:
            return self.fixed([one])
        if isinstance(kind, Struct):
            reader = self.struct(kind, version, f"{name}_{variable}")
            return [f"    {variable}, at = {reader}(data, at, {end})"]
        if isinstance(kind, Scalar):
            return self.text_or_bytes(one, kind, end, variable)
        return self.array(one, kind, version, end, variable, name)

    def text_or_bytes(self, one: Field, kind: Scalar, end: str, variable: str) -> list[str]:
        stop = "stop" if end == "end" else "behind"
        lines = [
            f"    {stop} = at + size - 1",
            f"    if {stop} > {end}:",
            f"        raise beyond(size - 1, at, {end})",
            f"    {variable} = {self.taken(kind, f'data[at:{stop}]')}",
            f"    at = {stop}",
        ]
        return [*length("size"), *self.if_null(one, variable, lines, "str" if kind is Scalar.STRING else "bytes")]

    def taken(self, kind: Scalar, piece: str) -> str:
        """A text, or bytes."""
        return f"{piece}.decode()" if kind is Scalar.STRING else piece

    def array(self, one: Field, kind: Array, version: int, end: str, variable: str, name: str) -> list[str]:
        least = _least(kind.of, version)
        share = f"({end} - at) // {least}" if least > 1 else f"{end} - at"
        lines = [f"    if size - 1 > {share}:", f'        raise too_many("{one.name}", size - 1, {end} - at)']
        if kind.of in (Scalar.INT32, Scalar.UUID):
            of = "int" if kind.of is Scalar.INT32 else "UUID"
            lines += self.scalars(kind.of, variable)
            return [*length("size"), *self.if_null(one, variable, lines, f"tuple[{of}, ...]")]
        reader = self.items(one, kind, version, name)
        lines += [f"    {variable}, at = {reader}(data, at, {end}, size - 1)"]
        return [*length("size"), *self.if_null(one, variable, lines, self.of_items)]

    def scalars(self, kind: Scalar | Struct, variable: str) -> list[str]:
        """The items of an array of numbers, or of uuids."""
        if kind is Scalar.INT32:
            return [f'    {variable} = unpack_from(f">{{size - 1}}i", data, at)', "    at += (size - 1) * 4"]
        return [
            "    behind = at + (size - 1) * 16",
            f"    {variable} = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])",
            "    at = behind",
        ]

    def items(self, one: Field, kind: Array, version: int, name: str) -> str:
        """The function that reads the items of an array."""
        body = [f"(data: bytes, at: int, end: int, items: int) -> tuple[{self.of_items}, int]:", "    every = []"]
        body += ["    for _ in range(items):"]
        if isinstance(kind.of, Struct):
            lines, entries = self.plain(kind.of, version, "end", f"{name}_{snake(one.name)}")
            lines += self.close(kind.of, version, entries, f"{name}_{snake(one.name)}", "each")
            body += [*indented(lines), "        every.append(each)"]
        else:
            item = Field("each", kind.of)
            body += [*indented(self.value(item, version, "end", "each", name)), "        every.append(each)"]
        body.append(f"    return {self.all_items}, at")
        return self.function(body, f"_items_of_{snake(one.name)}")

    def struct(self, struct: Struct, version: int, name: str) -> str:
        """The function that reads a struct that is a field."""
        lines, entries = self.plain(struct, version, "end", name)
        body = [f"(data: bytes, at: int, end: int) -> tuple[{self.made}, int]:", *lines]
        return self.function(
            [*body, *self.close(struct, version, entries, name), "    return found, at"], f"_struct{name}"
        )

    def if_null(self, one: Field, variable: str, lines: Sequence[str], kind: str) -> list[str]:
        """With what a length of 0 means."""
        if one.nullable:
            return ["    if not size:", f"        {self.null(variable, kind)}", "    else:", *indented(lines)]
        return ["    if not size:", f'        raise no_null("{one.name}")', *lines]

    def null(self, variable: str, kind: str) -> str:
        """What a null is."""
        return f"{variable}: {kind} | None = None"


def _runs(fields: Sequence[Field]) -> Iterator[list[Field]]:
    run: list[Field] = []
    for one in fields:
        if one.type in _FIXED:
            run.append(one)
            continue
        if run:
            yield run
        yield [one]
        run = []
    if run:
        yield run


def parts(package: str, names: Sequence[str], code: str) -> list[str]:
    """The import of what is used of a package's `parts`."""
    used = sorted((name for name in names if re.search(rf"\b{name}\b", code)), key=str.lower)
    return [f"from kraftlog.{package}.parts import {', '.join(used)}"] if used else []


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
    plain = [one for one in kind.fields if one.tag is None and one.since <= version]
    return 1 + sum(_least(one.type, version) if isinstance(one.type, (Scalar, Struct)) else 1 for one in plain)
