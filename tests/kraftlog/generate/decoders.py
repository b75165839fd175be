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
_HELPERS = ("beyond", "misfit", "no_boolean", "no_null", "order", "other_tags", "read_unsigned", "too_many", "uuid_of")


def module_name(kind: RecordType) -> str:
    """What the module of a type is called."""
    return kind.name.removesuffix("_RECORD").lower()


def module(kind: RecordType) -> str:
    """The text of the module of a type, as yet unformatted."""
    writer = _Writer()
    readers = []
    for version in range(kind.last_version + 1):
        found = [(writer.version(layout, version), layout.name) for layout in kind.layouts]
        readers.append("(" + "".join(f'({name}, "{layout}"),' for name, layout in found) + ")")
    return writer.text(kind, readers)


def _snake(name: str) -> str:
    found = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return (
        f"{found}_" if keyword.iskeyword(found) or hasattr(builtins, found) or found in {"at", "end", "data"} else found
    )


@dataclass
class _Writer:
    """The functions of one module; what two versions share is written once."""

    functions: dict[str, str] = field(default_factory=dict)
    """Body -> name."""
    formats: dict[str, str] = field(default_factory=dict)
    """Format of fixed fields -> name."""
    versioned: set[str] = field(default_factory=set)
    """Functions that take the version as well."""

    def text(self, kind: RecordType, readers: Sequence[str]) -> str:
        code = "\n\n".join(f"def {name}{body}" for body, name in self.functions.items())
        formats = "\n".join(f'{name} = Struct(">{form}")' for form, name in self.formats.items())
        used = [name for name in _HELPERS if re.search(rf"\b{name}\b", code)]
        lines = [
            f'"""{kind.name}, {"version 0" if not kind.last_version else f"versions 0 to {kind.last_version}"}.',
            "",
            "Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            *(
                ["from struct import Struct, unpack_from"]
                if "unpack_from(f" in code
                else ["from struct import Struct"]
                if formats
                else []
            ),
            "from typing import Any",
            *(["from uuid import UUID"] if re.search(r"\bUUID\b", code) else []),
            "",
            f"from kraftlog.decoders.parts import {', '.join(sorted(['Readers', *used], key=str.lower))}",
            *(["from kraftlog.schema.types import UNKNOWN_TAGS"] if "UNKNOWN_TAGS" in code else []),
            "",
            formats,
            "",
            code,
            "",
            f"READERS: Readers = ({''.join(f'{one},' for one in readers)})",
        ]
        return "\n".join(lines) + "\n"

    def version(self, layout: Layout, version: int) -> str:
        """The function of a version."""
        suffix = f"_of_{layout.name.replace('.', '_').replace('-', '_to_')}" if layout.name else ""
        lines, entries = self.plain(layout.fields, version, "end", f"_v{version}{suffix}")
        body = ["(data: bytes, at: int) -> tuple[dict[str, Any], int]:", "    end = len(data)"]
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
        lines = [f"    {into}: dict[str, Any] = {{{', '.join(entries)}}}", *_length("count")]
        tagged = [one for one in struct.fields if one.tag is not None and one.since <= version]
        reader = self.tags(struct, name) if tagged else "other_tags"
        given = f", {version}" if reader in self.versioned else ""
        return [*lines, "    if count:", f"        at = {reader}(data, at, end, count, {into}{given})"]

    def tags(self, struct: Struct, name: str) -> str:
        """The function that reads a tagged section, of every version that has tags of its own."""
        tagged = [one for one in struct.fields if one.tag is not None]
        first = min(one.since for one in tagged)
        versioned = ", version: int" if any(one.since > first for one in tagged) else ""
        body = [
            f"(data: bytes, at: int, end: int, count: int, found: dict[str, Any]{versioned}) -> int:",
            "    previous = -1",
            "    unknown = []",
            "    for _ in range(count):",
            *_indented([*_length("tag"), *_length("size")]),
            "        if tag <= previous:",
            "            raise order(tag, previous)",
            "        previous = tag",
            "        stop = at + size",
            "        if stop > end:",
            "            raise beyond(size, at, end)",
        ]
        word = "if"
        for one in sorted(tagged, key=lambda one: one.tag or 0):
            variable = _snake(one.name)
            since = f" and version >= {one.since}" if one.since > first else ""
            body += [f"        {word} tag == {one.tag}{since}:"]
            body += _indented(self.value(one, one.since, "stop", variable, name), 2)
            body += [f'            found["{one.name}"] = {self.entry(one, variable)}']
            body += ["            if at != stop:", f'                raise misfit("{one.name}", at, stop)']
            word = "elif"
        body += ["        else:", "            unknown.append((tag, data[at:stop]))", "            at = stop"]
        body += ["    if unknown:", "        found[UNKNOWN_TAGS] = tuple(unknown)", "    return at"]
        made = self.function(body, "_tags")
        if versioned:
            self.versioned.add(made)
        return made

    def plain(self, struct: Struct, version: int, end: str, name: str) -> tuple[list[str], list[str]]:
        """The fields without a tag: the lines that read them, and the entries of the dict."""
        fields = [one for one in struct.fields if one.tag is None and one.since <= version]
        lines: list[str] = []
        for run in _runs(fields):
            if len(run) == 1 and run[0].type not in _FIXED:
                lines += self.value(run[0], version, end, _snake(run[0].name), name)
            else:
                lines += self.fixed(run)
        return lines, [f'"{one.name}": {self.entry(one, _snake(one.name))}' for one in fields]

    def fixed(self, run: Sequence[Field]) -> list[str]:
        """Fields of fixed sizes, all at once."""
        kinds = [_FIXED[one.type] for one in run if isinstance(one.type, Scalar)]
        form, size = "".join(kind[0] for kind in kinds), sum(kind[1] for kind in kinds)
        name = "_" + "_".join(one.type.name for one in run if isinstance(one.type, Scalar))
        self.formats[form] = name
        names = ", ".join(_snake(one.name) for one in run)
        lines = [f"    {names}{',' if len(run) == 1 else ''} = {name}.unpack_from(data, at)", f"    at += {size}"]
        for one in run:
            if one.type is Scalar.BOOL:
                variable = _snake(one.name)
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
        taken = "data[at:stop]" + (".decode()" if kind is Scalar.STRING else "")
        stop = "stop" if end == "end" else "behind"
        lines = [
            f"    {stop} = at + size - 1",
            f"    if {stop} > {end}:",
            f"        raise beyond(size - 1, at, {end})",
            f"    {variable} = {taken.replace('stop', stop)}",
            f"    at = {stop}",
        ]
        return [*_length("size"), *_if_null(one, variable, lines, "str" if kind is Scalar.STRING else "bytes")]

    def array(self, one: Field, kind: Array, version: int, end: str, variable: str, name: str) -> list[str]:
        least = _least(kind.of, version)
        share = f"({end} - at) // {least}" if least > 1 else f"{end} - at"
        lines = [f"    if size - 1 > {share}:", f'        raise too_many("{one.name}", size - 1, {end} - at)']
        if kind.of is Scalar.INT32:
            lines += [f'    {variable} = unpack_from(f">{{size - 1}}i", data, at)', "    at += (size - 1) * 4"]
            return [*_length("size"), *_if_null(one, variable, lines, "tuple[int, ...]")]
        if kind.of is Scalar.UUID:
            lines += [
                "    behind = at + (size - 1) * 16",
                f"    {variable} = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])",
                "    at = behind",
            ]
            return [*_length("size"), *_if_null(one, variable, lines, "tuple[UUID, ...]")]
        reader = self.items(one, kind, version, name)
        lines += [f"    {variable}, at = {reader}(data, at, {end}, size - 1)"]
        return [*_length("size"), *_if_null(one, variable, lines, "tuple[Any, ...]")]

    def items(self, one: Field, kind: Array, version: int, name: str) -> str:
        """The function that reads the items of an array."""
        body = ["(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:", "    every = []"]
        body += ["    for _ in range(items):"]
        if isinstance(kind.of, Struct):
            lines, entries = self.plain(kind.of, version, "end", f"{name}_{_snake(one.name)}")
            lines += self.close(kind.of, version, entries, f"{name}_{_snake(one.name)}", "each")
            body += [*_indented(lines), "        every.append(each)"]
        else:
            item = Field("each", kind.of)
            body += [*_indented(self.value(item, version, "end", "each", name)), "        every.append(each)"]
        body.append("    return tuple(every), at")
        return self.function(body, f"_items_of_{_snake(one.name)}")

    def struct(self, struct: Struct, version: int, name: str) -> str:
        """The function that reads a struct that is a field."""
        lines, entries = self.plain(struct, version, "end", name)
        body = ["(data: bytes, at: int, end: int) -> tuple[dict[str, Any], int]:", *lines]
        return self.function(
            [*body, *self.close(struct, version, entries, name), "    return found, at"], f"_struct{name}"
        )


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


def _length(variable: str) -> list[str]:
    """A length, a count or a tag; nearly all are of one byte."""
    return [
        f"    {variable} = data[at]",
        "    at += 1",
        f"    if {variable} > 127:",
        f"        {variable}, at = read_unsigned(data, at - 1)",
    ]


def _if_null(one: Field, variable: str, lines: Sequence[str], kind: str) -> list[str]:
    """With what a length of 0 means."""
    if one.nullable:
        return ["    if not size:", f"        {variable}: {kind} | None = None", "    else:", *_indented(lines)]
    return ["    if not size:", f'        raise no_null("{one.name}")', *lines]


def _indented(lines: Sequence[str], times: int = 1) -> list[str]:
    return ["    " * times + line for line in lines]


def _least(kind: Scalar | Struct, version: int) -> int:
    """Bytes that an item takes at least."""
    if isinstance(kind, Scalar):
        return _FIXED[kind][1] if kind in _FIXED else 1
    plain = [one for one in kind.fields if one.tag is None and one.since <= version]
    return 1 + sum(_least(one.type, version) if isinstance(one.type, (Scalar, Struct)) else 1 for one in plain)
