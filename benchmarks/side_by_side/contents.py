"""Whether a table holds what the events make of it, whichever system wrote it."""

from __future__ import annotations

import pyarrow as pa


def difference(expected: pa.Table, found: pa.Table) -> str | None:
    """The first thing that is wrong with ``found``, or None if both hold the same rows in any order.

    ``expected`` is ordered by id. Columns of ``found`` may come in any order, and its times with a zone.
    """
    missing = [name for name in expected.column_names if name not in found.column_names]
    if missing:
        return f"the table has no column {', '.join(missing)}"
    rows = _in_form_of(expected.schema, found)
    if rows.num_rows != expected.num_rows:
        return f"the table has {rows.num_rows} rows instead of {expected.num_rows}"
    if rows.equals(expected):
        return None
    for name in expected.column_names:
        if rows[name].equals(expected[name]):
            continue
        pairs = zip(rows["id"].to_pylist(), rows[name].to_pylist(), expected[name].to_pylist(), strict=True)
        key, value, wanted = next(pair for pair in pairs if pair[1] != pair[2])
        return f"column {name} of id {key} is {value!r} instead of {wanted!r}"
    return "the rows differ"


def _in_form_of(schema: pa.Schema, found: pa.Table) -> pa.Table:
    columns = []
    for field in schema:
        column = found[field.name]
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit))
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema).sort_by("id").combine_chunks()
