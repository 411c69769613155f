"""The values of computed columns for many rows: a failing expression affects only its row."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import ConfigError
from paimon_table.rows.chunks import one_array
from paimon_table.types import BINARIES, DataType, Root, arrow_type
from sources.expressions import engine
from sources.expressions.expression import Bound, column_name, converted, misfit, plain

_WITH_POINT = frozenset({Root.DECIMAL, Root.FLOAT, Root.DOUBLE})
_MOST_EXPLAINED = 100
"""How many bad rows of one stretch get the engine's own message; each takes a query."""


@dataclass(frozen=True, slots=True)
class Column:
    """A computed column: the engine's result as the type of the table's column."""

    text: str
    """As the user wrote it."""
    inputs: tuple[str, ...]
    metadata: tuple[str, ...]
    type: DataType
    sql: str
    check: str | None = None
    """SQL that checks whether the value fits into the type."""
    mask_key: str | None = None
    """The name of the secret key under which the value is hashed."""

    @classmethod
    def of(cls, expression: Bound, given: DataType, wanted: DataType) -> Column:
        """The column of type ``wanted`` for an expression that gives the type ``given``."""
        sql, check = converted(f"({expression.sql})", given, wanted)
        return cls(expression.text, expression.inputs, expression.metadata, wanted, sql, check)

    @classmethod
    def of_condition(cls, expression: Bound) -> Column:
        return cls(
            expression.text, expression.inputs, expression.metadata, DataType(Root.BOOLEAN), f"({expression.sql})"
        )

    @classmethod
    def hashed(cls, column: str, given: DataType, wanted: DataType, mask_key: str) -> Column:
        """HMAC-SHA256 of the bytes of a value, or of its text in UTF-8, as 64 hexadecimal digits.

        Equal numbers have the same text, whatever their type: without zeros at the end of the fraction.
        """
        name = f'"{column_name(column)}"'
        text = f"CAST({name} AS VARCHAR)"
        sql = name if given.root in BINARIES else text
        if given.root in _WITH_POINT:
            short = f"rtrim(rtrim({text}, '0'), '.')"
            has_point = f"contains({text}, '.') AND NOT contains({text}, 'e')"
            sql = f"CASE WHEN {name} = 0 THEN '0' WHEN {has_point} THEN {short} ELSE {text} END"
        return cls("hash", (column,), (), wanted, sql, None, mask_key)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of one column, NULL for rows without one, and the reasons by row."""

    values: pa.Array | pa.ChunkedArray
    problems: Mapping[int, str] = field(default_factory=dict)


def evaluated(columns: Sequence[Column], rows: pa.Table, mask_keys: Mapping[str, bytes]) -> list[Evaluation]:
    """The values of each column for all rows."""
    if not columns:
        return []
    wanted = [sql for column in columns for sql in (column.sql, *([column.check] if column.check else []))]
    try:
        found = iter(engine.evaluate(wanted, rows))
    except engine.EngineError:
        return [_one_by_one(column, rows, mask_keys) for column in columns]
    results = []
    for column in columns:
        values = next(found)
        fits = next(found) if column.check else None
        results.append(_stored(column, values, fits, {}, mask_keys))
    return results


def _one_by_one(column: Column, rows: pa.Table, mask_keys: Mapping[str, bytes]) -> Evaluation:
    """The values of the rows that have one, and the engine's errors for the others."""
    values, failed = _parts_or_null(column, column.sql, rows)
    bad = np.flatnonzero(np.asarray(failed)).tolist()
    problems = {}
    reason = "it has no value"
    for row in bad[:_MOST_EXPLAINED]:
        try:
            engine.evaluate([column.sql], rows.slice(row, 1))
        except engine.EngineError as error:
            reason = plain(error, column.inputs)
        problems[row] = reason
    problems |= dict.fromkeys(bad[_MOST_EXPLAINED:], reason)
    fits = None
    if column.check:
        fits, unknown = _parts_or_null(column, column.check, rows)
        fits = pc.if_else(unknown, True, fits)
    return _stored(column, values, fits, problems, mask_keys)


def _parts_or_null(column: Column, sql: str, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The values, NULL for failed rows, and a mask of these rows.

    TRY does not catch some errors, such as an unknown time zone: then each half of the rows is evaluated separately.
    """
    try:
        values, failed = engine.evaluate_or_null(sql, rows)
        return values, pa.chunked_array([failed])
    except engine.EngineError as error:
        if isinstance(error, engine.BROKEN):
            raise ConfigError(f"{column.text}: {plain(error, column.inputs)}: write it in another way") from error
        if rows.num_rows <= 1:
            return pa.chunked_array([pa.nulls(rows.num_rows)]), pa.chunked_array([[True] * rows.num_rows], pa.bool_())
    middle = rows.num_rows // 2
    parts = [_parts_or_null(column, sql, part) for part in (rows.slice(0, middle), rows.slice(middle))]
    t = next((values.type for values, _ in parts if not pa.types.is_null(values.type)), pa.null())
    values = pa.chunked_array([chunk for part, _ in parts for chunk in part.cast(t).chunks], t)
    return values, pa.chunked_array([chunk for _, mask in parts for chunk in mask.chunks], pa.bool_())


def _stored(
    column: Column,
    values: pa.ChunkedArray,
    fits: pa.ChunkedArray | None,
    problems: Mapping[int, str],
    mask_keys: Mapping[str, bytes],
) -> Evaluation:
    found = dict(problems)
    if fits is not None:
        for row in np.flatnonzero(~np.asarray(pc.fill_null(fits, True))).tolist():
            found.setdefault(row, misfit(column.type))
    if column.mask_key is not None:
        return Evaluation(_hashed(values, mask_keys[column.mask_key]), found)
    wanted = arrow_type(column.type)
    if values.type != wanted:
        try:
            values = values.cast(wanted)
        except pa.ArrowInvalid:
            values, lost = _cast_each(values, wanted)
            for row in lost:
                found.setdefault(row, misfit(column.type))
    return Evaluation(values, found)


def _cast_each(values: pa.ChunkedArray, wanted: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The values that a type holds, and the rows of the others."""
    parts, lost = [], []
    for row, value in enumerate(values):
        try:
            parts.append(value.cast(wanted))
        except pa.ArrowInvalid:
            parts.append(pa.scalar(None, wanted))
            lost.append(row)
    return pa.array(parts, wanted), lost


def _hashed(values: pa.ChunkedArray, key: bytes) -> pa.Array:
    keyed = hmac.new(key, digestmod=hashlib.sha256)

    def digest(value: str | bytes) -> str:
        one = keyed.copy()
        one.update(value.encode() if isinstance(value, str) else value)
        return one.hexdigest()

    encoded = one_array(values).dictionary_encode()
    digests = pa.array([None if v is None else digest(v) for v in encoded.dictionary.to_pylist()], pa.string())
    return digests.take(encoded.indices)
