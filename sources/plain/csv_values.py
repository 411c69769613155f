"""CSV: each value is one line, whose fields are the columns that the options name.

Lines without quotes are split at once, the others one by one. Fields are texts, which the types of the table read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.json_changes.text_parts import are_utf8
from sources.plain.column_rows import ColumnRows
from sources.plain.csv_options import CsvOptions
from sources.upsert_json.row_decoding import Positions, RowGroup
from sources.values.connect_types import struct_columns
from sources.wording import EMPTY

Mask = npt.NDArray[np.bool_]

_BYTE_ORDER_MARK = "^\ufeff"
_LINE_END = r"\r?\n\z"
_NO_TEXT = "value is not UTF-8 text, so it is not a line of CSV"


@dataclass(frozen=True, slots=True)
class CsvValues:
    """See ``decoder.PlainValues``."""

    batch: pa.RecordBatch
    options: CsvOptions
    own_keys: None = None

    def parse(self, column: str, position: int) -> Any:
        """See ``decoder.PlainValues``."""
        data = self.batch.column(column)[position].as_py()
        try:
            return None if data is None else parsed_line(data.decode("utf-8"), self.options)
        except UnicodeDecodeError:
            return MalformedRecord(_NO_TEXT)
        except MalformedRecord as error:
            return error

    def rows(self, outcome: Outcome) -> CsvRows:
        """See ``decoder.PlainValues``."""
        return CsvRows(self.options, outcome)


@dataclass(frozen=True, slots=True)
class _Rows:
    positions: Positions
    rows: pa.StructArray


@dataclass(frozen=True, slots=True)
class CsvRows:
    """See ``sources.upsert_json.row_decoding.RowReading``."""

    options: CsvOptions
    outcome: Outcome

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """The rows, and the positions of records without a value."""
        values = self.outcome.values_at(positions)
        there = np.asarray(values.is_valid())
        nulls, positions, values = positions[~there], positions[there], values.drop_null()
        good = are_utf8(values)
        for position in positions[~good].tolist():
            self.outcome.quarantine(position, _NO_TEXT)
        positions, texts = positions[good], values.filter(pa.array(good)).cast(pa.string())
        texts = pc.replace_substring_regex(texts, _BYTE_ORDER_MARK, "")
        is_plain = ~self._may_be_quoted(texts)
        parts = (
            self._split(positions[is_plain], texts.filter(pa.array(is_plain))),
            self._read(positions[~is_plain], texts.filter(pa.array(~is_plain)).to_pylist()),
        )
        positions = np.concatenate([part.positions for part in parts])
        rows = pa.concat_arrays([part.rows for part in parts])
        is_header = self._are_headers(rows)
        for position in positions[is_header].tolist():
            self.outcome.note_control(topic, "header", position)
        found = (positions[~is_header], rows.filter(pa.array(~is_header)))
        return [ColumnRows(topic, self.outcome).group(_schema(self.options.columns), found)], nulls

    def _are_headers(self, rows: pa.StructArray) -> Mask:
        named = zip(self.options.columns, rows.flatten(), strict=True)
        are_names = [np.asarray(pc.fill_null(pc.equal(column, name), False)) for name, column in named]
        found: Mask = np.logical_and.reduce(are_names)
        return found

    def _may_be_quoted(self, texts: pa.Array) -> Mask:
        odd = pc.match_substring_regex(pc.replace_substring_regex(texts, _LINE_END, ""), r"[\r\n]")
        if self.options.has_quotes:
            odd = pc.or_(odd, pc.match_substring(texts, self.options.quote))
        found: Mask = np.asarray(odd)
        return found

    def _split(self, positions: Positions, texts: pa.Array) -> _Rows:
        """Rows of lines that have no quotes."""
        names, null = self.options.columns, self.options.null_text
        texts = pc.replace_substring_regex(texts, _LINE_END, "")
        lists = pc.split_pattern(texts, self.options.delimiter)
        counts = np.asarray(pc.list_value_length(lists)).astype(np.int64)
        empty = np.asarray(pc.equal(pc.binary_length(texts), 0))
        fit = (counts == len(names)) & ~empty
        for index in np.flatnonzero(~fit).tolist():
            self.outcome.quarantine(int(positions[index]), _miscounted(int(counts[index]), names, bool(empty[index])))
        flat = lists.filter(pa.array(fit)).flatten()
        fields = [flat.take(pa.array(np.arange(first, len(flat), len(names)))) for first in range(len(names))]
        columns = [pc.if_else(pc.equal(f, null), pa.scalar(None, pa.string()), f) for f in fields]
        return _Rows(positions[fit], pa.StructArray.from_arrays(columns, names=list(names)))

    def _read(self, positions: Positions, lines: Sequence[str]) -> _Rows:
        """Rows of lines that may have quotes."""
        kept: list[int] = []
        rows: list[tuple[str | None, ...]] = []
        for position, line in zip(positions.tolist(), lines, strict=True):
            try:
                rows.append(_fields(line, self.options))
            except MalformedRecord as error:
                self.outcome.quarantine(position, str(error))
            else:
                kept.append(position)
        self.outcome.count(exact=len(lines))
        names = self.options.columns
        columns = [pa.array([row[index] for row in rows], pa.string()) for index in range(len(names))]
        return _Rows(np.array(kept, np.int64), pa.StructArray.from_arrays(columns, names=list(names)))


def parsed_line(line: str, options: CsvOptions) -> Mapping[str, str | None]:
    """One line as a row. Raises MalformedRecord."""
    return dict(zip(options.columns, _fields(line, options), strict=True))


def _fields(line: str, options: CsvOptions) -> tuple[str | None, ...]:
    """The fields of one line, as many as there are columns. Raises MalformedRecord."""
    field = _field(options.delimiter, options.quote if options.has_quotes else None)
    line = re.sub(r"\r?\n\Z", "", line)
    fields: list[str | None] = []
    at, is_last = 0, False
    while not is_last:
        found = field.match(line, at)
        if found is None:
            raise MalformedRecord(
                f"value is not one line of CSV: field {len(fields) + 1} has an unclosed quote, text after its closing "
                "quote, or a newline outside of quotes"
            )
        quoted, plain, more = found.groups()
        if quoted is not None:
            fields.append(quoted.replace(options.quote * 2, options.quote))
        else:
            fields.append(None if plain == options.null_text else plain)
        at, is_last = found.end(), not more
    if len(fields) != len(options.columns) or not line:
        raise MalformedRecord(_miscounted(len(fields), options.columns, not line))
    return tuple(fields)


def _miscounted(count: int, names: Sequence[str], is_empty: bool) -> str:
    if is_empty:
        return f"value {EMPTY}"
    return f"value has {count} fields, and `columns` of the format names {len(names)}"


@lru_cache(maxsize=64)
def _field(delimiter: str, quote: str | None) -> re.Pattern[str]:
    """One field at the beginning of a text: quoted or plain, with the delimiter if another field follows."""
    d, q = re.escape(delimiter), "" if quote is None else re.escape(quote)
    plain = rf"([^{d}\r\n]*)"
    inner = "((?!))" if quote is None else rf"{q}([^{q}]*(?:{q}{q}[^{q}]*)*){q}"
    unquoted = plain if quote is None else rf"(?!{q}){plain}"
    return re.compile(rf"(?:{inner}|{unquoted})(?:({d})|\Z)", re.DOTALL)


@lru_cache(maxsize=64)
def _schema(names: tuple[str, ...]) -> EmbeddedSchema:
    """Texts, as a schema says: never base64 of something."""
    fields = [{"field": name, "type": "string", "optional": True} for name in names]
    return EmbeddedSchema(struct_columns({"fields": fields}))
