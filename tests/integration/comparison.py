"""Whether a Paimon table equals `SELECT *` of its source table, and where not."""

import math
import signal
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.string import TextLoader

from paimon_table.table import Table
from tests.integration.source_tables import TABLES, SourceColumn, SourceTable
from tests.integration.workload import Workload
from tests.support.changelog import replay_strictly
from tests.support.pipeline_run import rows_so_far, running
from tests.support.waiting import seconds

REPORTED_DIFFERENCES = 10

Row = Mapping[str, Any]


def source_rows(connection: psycopg.Connection[tuple[Any, ...]], table: SourceTable) -> list[dict[str, Any]]:
    """Return `SELECT *` of a source table; JSON columns as the text that PostgreSQL prints."""
    with connection.cursor() as cursor:
        for name in ("json", "jsonb"):
            cursor.adapters.register_loader(name, TextLoader)
        cursor.execute(f"SELECT * FROM {table.name}".encode())
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def run_until_equal(root: Path, file: Path, log: Path, workload: Workload) -> list[Table]:
    """Run the pipeline in ``file`` beside more transactions, until its tables below ``root`` equal their source.

    Their changelogs replay to their rows, and no record is bad.
    """
    with running(file, log) as process:
        workload.run(60)
        deadline = time.monotonic() + seconds(240)
        while (
            (problems := _differences_so_far(root, workload)) and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(1)
        assert problems == [], log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()
    tables = [Table.open(f"{root}/warehouse/lake.db/{table.name}") for table in TABLES]
    for table, of_source in zip(tables, TABLES, strict=True):
        replayed = replay_strictly((rows for _, rows in table.changes()), [column.name for column in of_source.key])
        assert len(replayed) == len(table.to_arrow())
    assert not (root / "checkpoint-quarantine").exists()
    return tables


def _differences_so_far(root: Path, workload: Workload) -> list[str]:
    problems = []
    for table in TABLES:
        rows = rows_so_far(root / "warehouse/lake.db" / table.name)
        problems += differences(table, source_rows(workload.connection, table), rows)
    return problems


def differences(table: SourceTable, expected: Iterable[Row], actual: Iterable[Row]) -> list[str]:
    """Compare rows by key and say what differs, at most ten things; an empty list means equal.

    `expected` are source rows, `actual` rows of the Paimon table as Python values (`pyarrow.Table.to_pylist()`); order
    does not matter, a key that appears twice does. Columns that the source does not have are a difference too.
    """
    wanted, _ = _by_key(table, expected)
    found, problems = _by_key(table, actual)
    problems += [f"{table.name}: no row {key}, wanted {wanted[key]}" for key in wanted.keys() - found.keys()]
    problems += [f"{table.name}: unexpected row {key}: {found[key]}" for key in found.keys() - wanted.keys()]
    for key in wanted.keys() & found.keys():
        problems += _row_differences(table, key, wanted[key], found[key])
    if len(problems) > REPORTED_DIFFERENCES:
        return [*problems[:REPORTED_DIFFERENCES], f"and {len(problems) - REPORTED_DIFFERENCES} more"]
    return problems


def _by_key(table: SourceTable, rows: Iterable[Row]) -> tuple[dict[tuple[Any, ...], dict[str, Any]], list[str]]:
    columns = {column.name: column for column in table.columns}
    result: dict[tuple[Any, ...], dict[str, Any]] = {}
    problems = []
    for row in rows:
        plain = {name: _plain(columns.get(name), value) for name, value in row.items()}
        key = tuple(plain[column.name] for column in table.key)
        if key in result:
            problems.append(f"{table.name}: key {key} appears twice")
        result[key] = plain
    return result, problems


def _row_differences(table: SourceTable, key: Sequence[Any], wanted: Row, found: Row) -> list[str]:
    if wanted.keys() != found.keys():
        return [f"{table.name}: row {key} has columns {sorted(found)}, wanted {sorted(wanted)}"]
    return [
        f"{table.name}: row {key} has {name} = {_short(found[name])}, wanted {_short(wanted[name])}"
        for name in wanted
        if wanted[name] != found[name]
    ]


def _plain(column: SourceColumn | None, value: Any) -> Any:
    """Return a value that compares equal on both sides: one NaN, one time zone, single precision where declared."""
    if isinstance(value, str) and column is not None and column.sql_type.startswith("time("):
        return time_of_day.fromisoformat(value)  # microseconds do not fit Paimon's TIME and are kept as ISO text
    match value:
        case float():
            return _plain_float(value, is_single=column is not None and column.sql_type == "real")
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case Decimal():
            return str(value)
        case UUID():
            return str(value)
        case memoryview() | bytearray():
            return bytes(value)
        case list() | tuple():
            return tuple(_plain(None, item) for item in value)
        case _:
            return value


def _plain_float(value: float, is_single: bool) -> float | str:
    if math.isnan(value):
        return "NaN"
    if is_single:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
        return single
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
