"""Key-range chunks of overlapping runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.run_chunks import run_chunks
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.options.option_parsing import options_of
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type

_SCHEMA = create_schema([("k", parse_type("STRING")), ("j", parse_type("INT"))], ["k", "j"], options={"bucket": "1"})
_ORDER = KeyOrder(_SCHEMA, options_of(_SCHEMA))
_KEY = st.tuples(st.sampled_from(["", "a", "ab", "b"]), st.integers(0, 9))
_RUN = st.lists(st.lists(_KEY, min_size=1, max_size=6), max_size=3)


def _table(keys: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*keys, strict=True)) or [(), ()]
    return pa.table({"k": pa.array(columns[0], pa.string()), "j": pa.array(columns[1], pa.int32())})


def _file(name: str, keys: list[tuple[Any, ...]], level: int) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size_bytes=40 * len(keys),
        row_count=len(keys),
        min_key=serialize_row(keys[0], _ORDER.key_types),
        max_key=serialize_row(keys[-1], _ORDER.key_types),
        key_stats=SimpleStats(),
        value_stats=SimpleStats(),
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=level,
    )


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(_RUN, min_size=1, max_size=4), st.sampled_from([1, 100, 400, 1 << 20]), st.integers(1, 3))
def test_chunks_hold_all_rows_of_their_keys_in_order(
    runs: list[list[list[tuple[Any, ...]]]], chunk_bytes: int, batch_limit: int
) -> None:
    content: dict[str, list[tuple[Any, ...]]] = {}
    section = []
    for number, run in enumerate(runs):
        keys = sorted({key for file in run for key in file})
        cuts = [keys[i : i + 4] for i in range(0, len(keys), 4)]
        files = [_file(f"{number}-{i}", part, level=i) for i, part in enumerate(cuts)]
        content |= {f.file_name: part for f, part in zip(files, cuts, strict=True)}
        section.append(tuple(files))

    def read(file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
        step = min(batch_rows, batch_limit)
        for start in range(0, file.row_count, step):
            yield _table(content[file.file_name][start : start + step])

    chunks = list(run_chunks(tuple(section), read, _ORDER, chunk_bytes))

    seen = [[(piece.level, *row.values()) for piece in chunk for row in piece.rows.to_pylist()] for chunk in chunks]
    everything = [(f.level, *key) for run in section for f in run for key in content[f.file_name]]
    assert sorted(row for chunk in seen for row in chunk) == sorted(everything)
    assert all(piece.rows.num_rows for chunk in chunks for piece in chunk)
    ranges = [(min(row[1:] for row in chunk), max(row[1:] for row in chunk)) for chunk in seen]
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
