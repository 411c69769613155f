"""The records of a case as a source would give them: numbered, timed, and as bytes."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from paimon_table.errors import ConfigError
from pipelines.trial.avro_values import AvroSchema
from pipelines.trial.case_file import LoadedCase, Record
from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_lines import NoRecord, record_of_line
from sources.dumps.dump_records import open_dump, row_of
from sources.positions import Place

FIRST_RECORD = datetime(2026, 1, 1, tzinfo=UTC)
"""Kafka's time of the first record of a case that states none; each one comes a second after the one before."""


class CaseRecords:
    """Gives the batches of one case, one after the other."""

    def __init__(self, loaded: LoadedCase) -> None:
        self.topics: dict[str, tuple[str | int, ...]] = {}
        """The topics of the records so far, each with the path of its first mention, relative to the case."""
        self._loaded = loaded
        self._next: defaultdict[Place, int] = defaultdict(int)
        self._count = 0

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """The batches of the case, and whether its process is killed after each."""
        case = self._loaded.case
        if case.batches is None:
            yield self._batch(case.records or (), "records"), False
            return
        for number, step in enumerate(case.batches):
            if step != "kill":
                is_killed = case.batches[number + 1 : number + 2] == ("kill",)
                yield self._batch(step, "batches", number), is_killed

    def _batch(self, records: Sequence[Record], *at: str | int) -> pa.RecordBatch:
        """The records of a batch at a path of the case."""
        rows = [row for i, record in enumerate(records) for row in self._rows(record, (*at, i))]
        rows.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    def _rows(self, record: Record, at: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
        if record.file is not None:
            for row in _rows_of_file(record.file, self._where(at)):
                yield self._placed(row, at)
            return
        where, case = self._where(at), self._loaded.case
        yield self._placed(
            {
                "topic": record.topic or case.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _content(record.key, record.key_b64, self._schema(record.key_schema, case.key_schema), where),
                "value": _content(
                    record.value, record.value_b64, self._schema(record.value_schema, case.value_schema), where
                ),
                "headers": [
                    {"key": name, "value": None if text is None else text.encode()}
                    for name, text in record.headers.items()
                ]
                or None,
            },
            ("topic",) if record.topic is None else (*at, "topic"),
        )

    def _placed(self, row: dict[str, Any], at: tuple[str | int, ...]) -> dict[str, Any]:
        self.topics.setdefault(row["topic"], at)
        place = row["topic"], row["partition"]
        offset = self._next[place] if row["offset"] is None else row["offset"]
        self._next[place] = max(self._next[place], offset + 1)
        first_us = int(FIRST_RECORD.timestamp()) * 1_000_000
        timestamp = first_us + self._count * 1_000_000 if row["timestamp"] is None else row["timestamp"]
        self._count += 1
        return {**row, "offset": offset, "timestamp": timestamp}

    def _schema(self, of_record: int | None, of_case: int | None) -> AvroSchema | None:
        number = of_case if of_record is None else of_record
        return None if number is None else self._loaded.schemas[number]

    def _where(self, at: tuple[str | int, ...]) -> str:
        return f"{self._loaded.path}:{self._loaded.line(*at)}"


def _rows_of_file(path: str, where: str) -> Iterator[dict[str, Any]]:
    try:
        with open_dump(path) as stream:
            lines = stream.read().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error}; correct the path") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = record_of_line(line)
        except NoRecord as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
        yield row_of(record)


def _content(value: Any, encoded: str | None, schema: AvroSchema | None, where: str) -> bytes | None:
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{where}: `key_b64` or `value_b64` is not base64; encode the bytes again") from error
    if schema is not None and value is not None:
        return schema.framed(value, where)
    if value is None or isinstance(value, str):
        return None if value is None else _utf8(value, where)
    return _utf8(json_text(value, where), where)


def _utf8(text: str, where: str) -> bytes:
    """The bytes of a text; YAML gives characters beyond the first plane as pairs where they are escaped as in JSON."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16").encode()
    except UnicodeDecodeError:
        text = f"{where}: half of a surrogate pair is not a character; write `value_b64` for such bytes"
        raise ConfigError(text) from None


def json_text(value: Any, where: str) -> str:
    """The JSON of a YAML value; numbers keep their digits as written, if JSON allows them."""
    match value:
        case dict():
            pairs = (f"{json.dumps(str(k), ensure_ascii=False)}:{json_text(v, where)}" for k, v in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(json_text(item, where) for item in value)}]"
        case float() if not math.isfinite(value):
            raise ConfigError(
                f"{where}: JSON cannot express the number {value}; write the text that the source sends, in quotes"
            )
        case int() | float() if not isinstance(value, bool):
            written = getattr(value, "written", "")
            return written if _is_number(written) else json.dumps(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _is_number(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), str)
    except ValueError:
        return False
