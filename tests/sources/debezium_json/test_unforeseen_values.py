"""A value that the code has no way with ends neither the process nor the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sources.json_changes.change_rows import ChangeRows, row_objects
from sources.json_changes.row_conversion import ConvertedRows
from sources.json_changes.table_rows import TableRows
from tests.support.envelope_records import TWO_COLUMNS, decode, event, records

ADD = TableRows.add


def fails_at(monkeypatch: pytest.MonkeyPatch, ids: set[int], error: BaseException) -> None:
    """Conversion of the rows with these ids raises."""

    def add(self: TableRows, pieces: Sequence[ChangeRows]) -> list[ConvertedRows]:
        if any(row is not None and row["id"] in ids for piece in pieces for row in row_objects(piece.images)):
            raise error
        return ADD(self, pieces)

    monkeypatch.setattr(TableRows, "add", add)


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize(
    "error", [pa.ArrowNotImplementedError("no kernel\nat x"), RecursionError("deep"), OverflowError("wide")]
)
def test_such_a_record_goes_to_quarantine_alone(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, count: int
) -> None:
    fails_at(monkeypatch, {count - 1}, error)
    batch = records([event("c", None, {"id": number, "v": "a"}) for number in range(count)])

    decoded = decode(batch, TWO_COLUMNS)

    told = f"the record cannot be decoded: {type(error).__name__}: {str(error).splitlines()[0]}; please report it"
    assert [(row.offset, row.reason) for row in decoded.quarantine] == [(99 + count, told)]
    assert decoded.quarantine[0].source is not None
    assert decoded.counts.accounted == count
    assert [row["id"] for c in decoded.changes for row in c.rows.to_pylist()] == [*range(count - 1)]


@pytest.mark.parametrize("error", [TypeError("ours"), MemoryError(), pa.ArrowMemoryError("full")])
def test_other_errors_are_raised(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    fails_at(monkeypatch, {1}, error)

    with pytest.raises(type(error)):
        decode(records([event("c", None, {"id": 1})]), TWO_COLUMNS)


@pytest.mark.parametrize("scale", ["Infinity", "1e400", '"x"'])
def test_a_schema_with_an_impossible_scale_goes_to_quarantine(scale: str) -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": 0}}
    row: dict[str, Any] = {"type": "struct", "field": "after", "fields": [{**decimal, "field": "id"}]}
    schema = {"type": "struct", "fields": [row, {"type": "string", "field": "op"}]}
    text = json.dumps({"schema": schema, "payload": event("c", None, {"id": "AQ=="})})
    value = text.replace('{"scale": 0}', f'{{"scale": {scale}}}').encode()

    (bad,) = decode(records([value, event("c", None, {"id": 2})]), TWO_COLUMNS).quarantine

    assert bad.offset == 100 and "embedded schema" in bad.reason
