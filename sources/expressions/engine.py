"""DuckDB as the engine of expressions: one connection a process, which reaches no file, no network and no setting.

The time zone is UTC whatever the machine says, divisions by zero and overflows raise, and nothing runs on a second
thread. Rows come and go as Arrow tables.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from paimon_table.rows.chunks import one_array

EngineError: TypeAlias = duckdb.Error
"""The errors of the engine for an expression that it cannot bind, or cannot evaluate for a row."""

BROKEN = (duckdb.FatalException, duckdb.InternalException)
"""The errors that are faults of the engine: after one, the engine answers no further query."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}
_ROWS = "tidemark_rows"
_lock = threading.RLock()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET ieee_floating_point_ops = false")
    # It moves repeated parts of an expression out of the TRY that confines a failure to one row.
    connection.execute("SET disabled_optimizers = 'common_subexpressions'")
    connection.execute("SET lock_configuration = true")
    return connection


def evaluate(expressions: Sequence[str], rows: pa.Table) -> list[pa.ChunkedArray]:
    """The values of SQL expressions for all rows. Raises EngineError if a row has none."""
    columns = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))
    with _lock, _registered(rows) as name:
        found = _connection().sql(f"SELECT {columns} FROM {name}").to_arrow_table()
    return list(found.columns)


def evaluate_or_null(expression: str, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.Array]:
    """The values of one expression, NULL if it fails, and a mask of the failed rows."""
    (wrapped,) = evaluate([f"TRY([{expression}])"], rows)
    lists = one_array(wrapped)
    values = pa.compute.list_element(pa.compute.fill_null(lists, pa.scalar([None], lists.type)), 0)
    return pa.chunked_array([values]), lists.is_null()


def described(expressions: Sequence[str], columns: pa.Schema) -> list[str]:
    """The DuckDB types of SQL expressions over rows with these columns. Raises EngineError if one cannot be bound."""
    selected = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))
    with _lock, _registered(columns.empty_table()) as name:
        return [str(row[1]) for row in _connection().execute(f"DESCRIBE SELECT {selected} FROM {name}").fetchall()]


def syntax_tree(expression: str) -> Mapping[str, Any]:
    """The statement ``SELECT expression`` as DuckDB's tree; with ``error`` if it is not SQL."""
    with _lock:
        rows = _connection().execute("SELECT json_serialize_sql(?)", [f"SELECT {expression}\n"]).fetchall()
    tree: dict[str, Any] = json.loads(rows[0][0])
    return tree


def text_of(tree: Mapping[str, Any]) -> str:
    """The expression of a tree of ``syntax_tree`` as SQL."""
    with _lock:
        rows = _connection().execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
    return str(rows[0][0]).removeprefix("SELECT ")


@cache
def functions() -> Mapping[str, frozenset[str]]:
    """The functions of the engine by name with their kinds; ``volatile`` marks those whose results may change."""
    query = "SELECT function_name, function_type, stability FROM duckdb_functions()"
    found: dict[str, set[str]] = {}
    with _lock:
        for name, kind, stability in _connection().execute(query).fetchall():
            words = found.setdefault(str(name), set())
            words.add(str(kind))
            if stability not in (None, "CONSISTENT"):
                words.add("volatile")
    return {name: frozenset(words) for name, words in found.items()}


@cache
def type_names() -> tuple[str, ...]:
    """The names of the engine's types, with their other names."""
    with _lock:
        rows = _connection().execute("SELECT DISTINCT upper(type_name) FROM duckdb_types()").fetchall()
    return tuple(sorted(str(row[0]) for row in rows))


class _registered:
    """The rows under a name of the engine while a query runs."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __enter__(self) -> str:
        _connection().register(_ROWS, self._rows)
        return _ROWS

    def __exit__(self, *_: object) -> None:
        _connection().unregister(_ROWS)


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """All mappings of a tree, outer ones first."""
    if isinstance(node, dict):
        yield node
        for part in node.values():
            yield from walk(part)
    elif isinstance(node, list):
        for part in node:
            yield from walk(part)
