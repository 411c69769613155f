"""Reading Avro files: by columns, many blocks side by side, and record by record."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import CorruptFile
from paimon_table.formats.avro.blocks import MalformedBlock
from paimon_table.formats.avro.columns import read_columns
from paimon_table.formats.avro.container import ContainerReader, ContainerWriter, MalformedContainer
from paimon_table.formats.avro.file import AvroReader, encode_records, read_records
from paimon_table.formats.avro.layout import UnknownLayout
from paimon_table.formats.avro.schema import file_schema
from paimon_table.formats.avro.walk import UnevenLanes
from paimon_table.formats.file_format import DamagedFile
from paimon_table.types import DataField, arrow_schema, parse_type
from tests.support.data_files import bucket_dir, context, table, write

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
ATOMIC: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": INT32,
    "BIGINT": INT64,
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=8) | st.integers(60, 200).map(lambda count: "ä" * count),
    "BYTES": st.binary(max_size=8) | st.integers(60, 9_000).map(bytes),
    "DECIMAL(9, 2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "DECIMAL(38, 0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "DECIMAL(20, 0)": st.integers(60, 66).flatmap(lambda bits: st.sampled_from([2**bits, -(2**bits)])).map(Decimal),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": st.integers(-(2**40), 2**40),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": INT64,
}
Column = tuple[str, st.SearchStrategy[Any]]
"""SQL text of a type and its values."""


def nullable(column: Column) -> st.SearchStrategy[Column]:
    text, values = column
    return st.sampled_from([(text, st.none() | values), (f"{text} NOT NULL", values)])


def nested(parts: st.SearchStrategy[Column]) -> st.SearchStrategy[Column]:
    keys = st.sampled_from([("STRING", st.text(max_size=3)), ("INT", INT32), ("BIGINT NOT NULL", INT64)])
    return (
        parts.map(lambda part: (f"ARRAY<{part[0]}>", st.lists(part[1], max_size=4)))
        | st.tuples(keys, parts).map(
            lambda kv: (
                f"MAP<{kv[0][0]}, {kv[1][0]}>",
                st.lists(st.tuples(kv[0][1], kv[1][1]), max_size=3, unique_by=lambda entry: entry[0]),
            )
        )
        | keys.map(
            lambda key: (
                f"MULTISET<{key[0]}>",
                st.lists(st.tuples(key[1], INT32), max_size=3, unique_by=lambda entry: entry[0]),
            )
        )
        | st.lists(parts, min_size=1, max_size=3).map(
            lambda fields: (
                "ROW<" + ", ".join(f"f{i} {text}" for i, (text, _) in enumerate(fields)) + ">",
                st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(fields)}),
            )
        )
    )


COLUMNS = st.recursive(
    st.sampled_from(sorted(ATOMIC.items())).flatmap(nullable), lambda parts: nested(parts).flatmap(nullable)
)


def fields_of(*texts: str) -> list[DataField]:
    return [DataField(i, f"c{i}", parse_type(text)) for i, text in enumerate(texts)]


def rows_of(fields: Sequence[DataField], columns: Sequence[list[Any]]) -> pa.Table:
    schema = arrow_schema(fields)
    return pa.table([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], names=schema.names)


def stored(rows: pa.Table, fields: Sequence[DataField], block_rows: Sequence[int], codec: str = "null") -> bytes:
    """A file whose blocks have so many rows; the last number is repeated."""
    out = io.BytesIO()
    writer = ContainerWriter(out, file_schema(fields), codec)
    start, number = 0, 0
    while start < rows.num_rows:
        block = rows.slice(start, block_rows[min(number, len(block_rows) - 1)])
        writer.write_block(block.num_rows, b"".join(encode_records(block, fields).to_pylist()))
        start, number = start + block.num_rows, number + 1
    return out.getvalue()


def by_columns(data: bytes, fields: Sequence[DataField]) -> pa.Table:
    reader = ContainerReader(io.BytesIO(data))
    table = read_columns(reader.schema, list(reader.blocks()), fields)
    table.validate(full=True)
    return table


def by_records(data: bytes, fields: Sequence[DataField]) -> pa.Table:
    reader = ContainerReader(io.BytesIO(data))
    return read_records(reader, list(reader.blocks()), fields)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_both_ways_of_reading_give_the_rows_that_were_written(data: st.DataObject) -> None:
    columns = data.draw(st.lists(COLUMNS, min_size=1, max_size=4))
    fields = fields_of(*(text for text, _ in columns))
    count = data.draw(st.integers(1, 12))
    rows = rows_of(fields, [[data.draw(values) for _ in range(count)] for _, values in columns])
    file = stored(rows, fields, data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    wanted = data.draw(st.permutations(fields))[: data.draw(st.integers(1, len(fields)))]

    read = by_columns(file, wanted)

    assert read.equals(rows.select([f.name for f in wanted]))
    assert read.combine_chunks().equals(by_records(file, wanted).combine_chunks())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_reported_or_read_as_other_values(data: st.DataObject) -> None:
    fields = fields_of(
        "INT NOT NULL", "STRING", "ARRAY<ROW<a BIGINT, b DOUBLE>>", "MAP<STRING, DECIMAL(9, 2)>", "MAP<INT, BYTES>"
    )
    rows = rows_of(
        fields,
        [[1, -70_000, 3], ["x" * 70, None, ""], [[{"a": 1, "b": 2.5}, None], [], None],
         [[("k", Decimal("1.25")), ("l", None)], None, []], [[(5, b"y")], [(6, None)], None]],
    )  # fmt: skip
    whole = stored(rows, fields, [2])
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    with suppress(MalformedContainer, MalformedBlock, UnknownLayout, UnevenLanes, pa.ArrowInvalid):
        by_columns(bytes(damaged), fields)
    with suppress(DamagedFile, pa.ArrowInvalid):
        AvroReader(pa.BufferReader(bytes(damaged)), "", fields).read()


def test_a_damaged_block_of_many_is_reported_with_its_file(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "s": "STRING"}, file_format="avro", file_compression="null")
    meta = write(ctx, table(ctx, [list(range(20_000)), ["text"] * 20_000]))
    path = Path(bucket_dir(ctx), meta.file_name)
    data = path.read_bytes()
    at = data.rindex(b"text") - 1
    path.write_bytes(data[:at] + b"\x06" + data[at + 1 :])

    with pytest.raises(CorruptFile, match=r"data-0a1b-3\.avro is not readable.*do not end where the block ends"):
        list(iter_key_value_batches(ctx, bucket_dir(ctx), meta))


def test_files_have_blocks_enough_to_be_decoded_side_by_side(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "s": "STRING", "b": "BYTES"}, file_format="avro")
    texts = [f"customer number {i}" for i in range(20_000)]
    meta = write(ctx, table(ctx, [list(range(20_000)), texts, [bytes(100_000), *[b""] * 19_999]]))

    with open(f"{bucket_dir(ctx)}/{meta.file_name}", "rb") as file:
        counts = [block.record_count for block in ContainerReader(file).blocks()]

    assert (len(counts) >= 20, max(counts) <= 2_000, sum(counts)) == (True, True, 20_000)


def test_text_that_is_not_utf8_is_reported() -> None:
    fields = fields_of("STRING")
    file = stored(rows_of(fields, [["text"] * 10]), fields, [1])

    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        AvroReader(pa.BufferReader(file.replace(b"text", b"te\xfft")), "", fields).read()


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("more", ["float", ["null", "r"]])
def test_files_of_another_writer_are_read(codec: str, more: Any) -> None:
    # given records in a union with null, as Java Paimon writes them, and columns that nobody asks for
    inner = {"type": "record", "name": "r", "fields": [
        {"name": "unwanted", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "wanted", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    ]}  # fmt: skip
    schema = ["null", {"type": "record", "name": "record", "fields": [
        {"name": "c0", "type": "int"}, {"name": "c1", "type": ["null", {"type": "array", "items": inner}]},
        {"name": "other", "type": {"type": "array", "items": "double"}},
        {"name": "more", "type": more},
    ]}]  # fmt: skip
    records = [
        {"c0": i, "c1": [{"unwanted": {"a": None, "b": "x"}, "wanted": None if i % 3 else i}] * (i % 4) or None,
         "other": [1.5] * i, "more": 1.0 if more == "float" else None}
        for i in range(50)
    ]  # fmt: skip
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec, sync_interval=100)
    out.seek(0)
    fields = fields_of("INT NOT NULL", "ARRAY<ROW<wanted TIMESTAMP(6)>>", "INT")

    read = AvroReader(pa.BufferReader(out.getvalue()), "", fields).read()

    assert read.column_names == ["c0", "c1"]
    moments = [[None if i % 3 else dt.datetime(1970, 1, 1, 0, 0, 0, i)] * (i % 4) for i in range(50)]
    assert read.to_pylist() == [{"c0": i, "c1": [{"wanted": t} for t in ts] or None} for i, ts in enumerate(moments)]


def test_arrays_of_several_avro_blocks_are_one_value() -> None:
    # given [1, 2, 3] as an item, then two items after their size in bytes
    fields = fields_of("ARRAY<INT NOT NULL> NOT NULL")
    out = io.BytesIO()
    writer = ContainerWriter(out, file_schema(fields), "null")
    for _ in range(3):
        writer.write_block(2, bytes([2, 2, 3, 4, 4, 6, 0]) + bytes([0]))

    for read in (by_columns, by_records):
        assert read(out.getvalue(), fields).column("c0").to_pylist() == [[1, 2, 3], []] * 3


def test_one_very_long_array_among_short_ones_is_read() -> None:
    fields = fields_of("ARRAY<INT>")
    rows = rows_of(fields, [[list(range(5_000)), *([[1]] * 20)]])
    file = stored(rows, fields, [1])

    with pytest.raises(UnevenLanes):
        by_columns(file, fields)
    assert AvroReader(pa.BufferReader(file), "", fields).read().equals(rows)


@pytest.mark.parametrize("wanted", ["BIGINT", "ROW<a INT, missing INT>", "MAP<STRING, INT>"])
def test_layouts_that_are_not_known_are_left_to_the_records(wanted: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "c0", "type": [{"type": "record", "name": "s", "fields": [{"name": "a", "type": "int"}]}, "null"]},
    ]}  # fmt: skip
    with pytest.raises(UnknownLayout):
        read_columns(schema, [], fields_of(wanted))


@pytest.mark.slow
def test_batches_count_positions_from_the_start_of_the_file() -> None:
    fields = fields_of("INT", "DECIMAL(9, 2)", "STRING")
    count = 70_000
    rows = rows_of(fields, [list(range(count)), [Decimal("-1.28"), None] * (count // 2), ["x"] * count])
    file = stored(rows, fields, [512])

    batches = list(AvroReader(pa.BufferReader(file), "", fields).batches(9_000, None))

    assert max(rows.num_rows for _, rows in batches) == 9_000
    assert [position for position, _ in batches] == [rows.column("c0")[0].as_py() for _, rows in batches]
    assert pa.concat_tables(rows for _, rows in batches).equals(rows)


def test_nan_is_no_null() -> None:
    fields = fields_of("DOUBLE", "FLOAT NOT NULL")
    nan = float("nan")
    file = stored(rows_of(fields, [[nan, None], [nan, -0.0]]), fields, [1])

    assert str(by_columns(file, fields).to_pylist()) == "[{'c0': nan, 'c1': nan}, {'c0': None, 'c1': -0.0}]"


def test_a_value_out_of_its_types_range_is_reported() -> None:
    wide, narrow = fields_of("BIGINT"), fields_of("INT")
    file = stored(rows_of(wide, [[2**40] * 10]), wide, [1])

    for read in (by_columns, by_records):
        with pytest.raises(pa.ArrowInvalid):
            read(file, narrow)


def test_a_null_record_is_reported() -> None:
    fields = fields_of("INT NOT NULL")
    out = io.BytesIO()
    writer = ContainerWriter(out, ["null", file_schema(fields)], "null")
    for _ in range(10):
        writer.write_block(2, bytes([2, 4, 0]))

    with pytest.raises(DamagedFile, match="a record is null"):
        AvroReader(pa.BufferReader(out.getvalue()), "", fields).read()
