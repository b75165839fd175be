"""The texts of the schema tables: one text per type of record, with its fields as Kafka's definitions have them."""

from __future__ import annotations

from kraftlog.schema.types import Array, Field, Scalar, Struct, control, metadata

HOST = Struct((Field("name", Scalar.STRING), Field("port", Scalar.UINT16)))


def test_a_type_of_record_is_read_from_its_text() -> None:
    text = "7 X_RECORD v4: id int32, racks [string]? since 2 tag 0, hosts [{name string, port uint16}], at {id uuid}"
    kind = metadata(text, {"3.0-3.2": "id int64"})
    assert (kind.key, kind.name, kind.last_version, kind.control) == (7, "X_RECORD", 4, False)
    current, older = kind.layouts
    assert current.fields.fields == (
        Field("id", Scalar.INT32),
        Field("racks", Array(Scalar.STRING), since=2, tag=0, nullable=True),
        Field("hosts", Array(HOST)),
        Field("at", Struct((Field("id", Scalar.UUID),))),
    )
    assert (older.name, older.fields) == ("3.0-3.2", Struct((Field("id", Scalar.INT64),)))


def test_a_record_without_fields_has_only_a_head() -> None:
    kind = control("9 EMPTY")
    assert (kind.key, kind.name, kind.last_version, kind.control) == (9, "EMPTY", 0, True)
    assert [layout.fields for layout in kind.layouts] == [Struct(())]
