"""The output of `tidemark table ...` for any Paimon table, without Spark; ``table_commands`` has the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC

import pyarrow as pa

from paimon_table import POSTPONED, FilesystemCatalog, Snapshot, Table, TableName, TableSchema
from paimon_table.catalog.table_name import DATABASE_SUFFIX
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.history.tags import TagStore
from paimon_table.nearest_name import did_you_mean
from paimon_table.row_kind import VALUE_KIND
from paimon_table.storage.file_io import FileIO, file_io_for
from paimon_table.types import sql
from pipelines.config.config_values import parse_instant
from pipelines.inspect.where import parse_condition
from pipelines.report.output import RowFormat, checked_stdout, quiet_pipe
from pipelines.report.row_output import write_rows
from pipelines.report.say import say
from pipelines.report.table_report import (
    all_snapshots,
    file_rows,
    kinds_first,
    schema_rows,
    show_table,
    snapshot_rows,
    waiting_text,
)
from pipelines.tables.continued_tables import known_continuation
from pipelines.views.table_shape import table_shape
from sources.wording import first_of

TABLE_FORMAT_LIMIT = 100
"""Rows that the form for people shows when no limit is given."""

_LISTED_TABLES = 20
Options = Sequence[str] | None
"""Storage options as NAME=VALUE."""


def show(path: str, form: RowFormat, storage: Options) -> None:
    """Columns, keys, options and state."""
    table = open_table(path, storage)
    with quiet_pipe():
        show_table(table, form)


def scan(
    path: str,
    form: RowFormat,
    columns: str | None,
    where: str | None,
    limit: int | None,
    snapshot: int | None,
    timestamp: str | None,
    tag: str | None,
    storage: Options,
) -> None:
    """The rows of the table."""
    if sum(chosen is not None for chosen in (snapshot, timestamp, tag)) > 1:
        raise ConfigError("--snapshot, --timestamp and --tag exclude each other; give one of them")
    table = open_table(path, storage)
    if snapshot is None and timestamp is None and tag is None:
        given = _named_by_options(table)
        _tell_postponed(table, given or table.snapshots.latest())
    else:
        given = None if tag is None else TagStore(table.io, table.paths).read(tag).snapshot
    moment = _milliseconds(timestamp) if timestamp is not None else None
    schema = _schema_at(table, snapshot, moment) if given is None else table.context.schemas[given.schema_id]
    predicate = parse_condition(where, schema.arrow_schema, _type_names(schema)) if where is not None else None
    names = _column_names(columns, schema.column_names)
    rows = table.read(names, predicate, snapshot_id=snapshot, timestamp_ms=moment, snapshot=given)
    empty = schema.arrow_schema.empty_table()
    _print(_with_header(empty.select(names) if names else empty, rows), form, limit)


def changes(
    path: str,
    form: RowFormat,
    first: int | None,
    last: int | None,
    columns: str | None,
    limit: int | None,
    snapshot_ids: bool,
    storage: Options,
) -> None:
    """The changelog, oldest first."""
    table = open_table(path, storage)
    if table.options.changelog_producer == "none" and table.schema.primary_keys:
        note = "the table has no changelog producer: these are the rows as written, with +U also for new keys and"
        say(f"{note} without the old rows; option changelog-producer creates a complete changelog", err=True)
    names = _column_names(columns, table.schema.column_names)
    newest = table.snapshots.latest_id() if last is None else last
    if first is not None and first > (newest or 0):
        raise ConfigError(f"--from {first} is after the last snapshot to read, which is {newest or 'none'}")
    parts = (
        kinds_first(rows, names, snapshot.id if snapshot_ids else None)
        for snapshot in table.snapshots.changelogs_between(first, last)
        for rows in table.changes_of(snapshot, names)
    )
    empty = kinds_first(_no_changes(table), names, 0 if snapshot_ids else None)
    _print(_with_header(empty, parts), form, limit)


def list_tables(warehouse: str, storage: Options) -> None:
    """The tables of a warehouse, or of one database in it."""
    io, root = file_io_for(warehouse, storage_options(warehouse, storage))
    found = tables_below(io, root)
    if not found:
        raise ConfigError(f"there are no tables at {warehouse}; a warehouse has them in DATABASE.db/TABLE")
    with quiet_pipe():
        checked_stdout().write("".join(f"{path}\n" for path in found))


def snapshots(path: str, form: RowFormat, limit: int | None, storage: Options) -> None:
    """The snapshots, oldest first."""
    _print([snapshot_rows(all_snapshots(open_table(path, storage)))], form, limit)


def schemas(path: str, form: RowFormat, limit: int | None, storage: Options) -> None:
    """The versions of the schema, oldest first; a note on stderr names the table that continues this one."""
    table = open_table(path, storage)
    _print([schema_rows(table)], form, limit)
    words = continued_words(table)
    if words is not None:
        say(f"{words}; this table gets no more records", err=True)


def files(path: str, form: RowFormat, snapshot: int | None, limit: int | None, storage: Options) -> None:
    """The live data files."""
    table = open_table(path, storage)
    _print([file_rows(table, _snapshot(table, snapshot))], form, limit)


def open_table(path: str, storage: Options, *, for_reading: bool = True) -> Table:
    """The table at ``path``. Raises ConfigError if there is none, and names the tables below the path."""
    options = storage_options(path, storage)
    io, root = file_io_for(path, options)
    try:
        return Table.open_for_reading(path, options) if for_reading else Table.open(path, options)
    except ConfigError:
        found = tables_below(io, root)
        if not found:
            raise
        listed = "".join(f"\n  {table}" for table in first_of(found, _LISTED_TABLES))
        raise ConfigError(f"{path} is not a table; there are tables below it:{listed}") from None


def storage_options(path: str, storage: Options) -> dict[str, str]:
    """Raises ConfigError for text that is not an option, and for options that the path's storage does not have."""
    options: dict[str, str] = {}
    for text in storage or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ConfigError("--option: expected NAME=VALUE, such as s3.endpoint=http://localhost:9000")
        options[name] = value
    if options and not path.startswith(("s3://", "s3a://")):
        raise ConfigError(f"--option {next(iter(options))}: only paths that begin with s3:// have storage options")
    return options


def _named_by_options(table: Table) -> Snapshot | None:
    """The snapshot that options of the table select for readers, reported on stderr; None for the newest one."""
    snapshot = table.stored_snapshot()
    if snapshot is not None:
        say(
            f"the table's options select snapshot {snapshot.id}, so this shows its rows; for other rows use "
            "--snapshot ID, --timestamp TIME or --tag NAME",
            err=True,
        )
    return snapshot


def continued_words(table: Table) -> str | None:
    """The table beside this one that continues it, in words; None if there is none."""
    root = table.paths.root
    name = root.rpartition("/")[2]
    own = known_continuation(table.schema)
    stem, number = (name, 1) if own is None else (TableName.of(own.table).table, own.number)
    with suppress(TidemarkError):  # what is there need not be a table
        later = Table.open_for_reading(f"{root.removesuffix(name)}{stem}_v{number + 1}", io=table.io)
        one = known_continuation(later.schema)
        if one is not None and TableName.of(one.earlier_table).table == name:
            return f"table {one.name} {one.words(later.schema.primary_keys)}"
    return None


def _tell_postponed(table: Table, snapshot: Snapshot | None) -> None:
    if table.schema.options.get("bucket") != str(POSTPONED):
        return
    waiting = table_shape(table.state(snapshot), table.options).waiting_rows
    if waiting:
        say(waiting_text(waiting, table.paths.root), err=True)


def _type_names(schema: TableSchema) -> dict[str, str]:
    return {f.name: sql(f.type) for f in schema.fields}


def _snapshot(table: Table, snapshot_id: int | None) -> Snapshot | None:
    """The requested snapshot, or else the latest; None for a table without one."""
    if snapshot_id is None:
        return table.snapshots.latest()
    found = table.snapshots.find(snapshot_id)
    if found is None:
        present = [s.id for s in all_snapshots(table)]
        range_text = f"it has {present[0]} to {present[-1]}" if present else "it has none"
        raise ConfigError(f"the table at {table.paths.root} has no snapshot {snapshot_id}; {range_text}")
    return found


def _schema_at(table: Table, snapshot_id: int | None, timestamp_ms: int | None) -> TableSchema:
    """The schema of the rows in a scan: the latest, or with time travel that of the snapshot."""
    if snapshot_id is not None:
        chosen = _snapshot(table, snapshot_id)
    elif timestamp_ms is not None:
        chosen = table.snapshots.at_or_before(timestamp_ms)
    else:
        chosen = None
    return table.schema if chosen is None else table.context.schemas[chosen.schema_id]


def _column_names(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ConfigError(f"--columns: there is no column {name!r}; {did_you_mean(name, known)}")
    if not names:
        raise ConfigError("--columns: expected at least one column")
    return names


def _milliseconds(text: str) -> int:
    try:
        instant = parse_instant(int(text) if text.isascii() and text.isdigit() else text, zone=UTC)
    except ValueError as error:
        raise ConfigError(f"--timestamp: {error}") from None
    return int(instant.timestamp() * 1000)


def _no_changes(table: Table) -> pa.Table:
    kind = pa.field(VALUE_KIND, pa.int8(), False)
    return pa.schema([kind, *table.schema.arrow_schema]).empty_table()


def _with_header(empty: pa.Table, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """An empty table first, so that a result without rows still has its columns."""
    yield empty
    yield from parts


def _limited(parts: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    """At most ``limit`` rows; does not read parts that are not needed."""
    left = limit
    for part in parts:
        yield part.slice(0, left)
        left -= min(left, part.num_rows)
        if left == 0 and part.num_rows:
            return


def _print(parts: Iterable[pa.Table], output: RowFormat, limit: int | None) -> None:
    with quiet_pipe():
        if limit is not None:
            write_rows(_limited(parts, limit), output)
        elif output in (RowFormat.TABLE, RowFormat.VERTICAL):
            _print_first(parts, output)
        else:
            write_rows(parts, output)


def _print_first(parts: Iterable[pa.Table], output: RowFormat) -> None:
    """As many rows as people read, with a note when there are more."""
    shown = pa.concat_tables(_limited(parts, TABLE_FORMAT_LIMIT + 1), promote_options="permissive")
    write_rows([shown.slice(0, TABLE_FORMAT_LIMIT)], output)
    if shown.num_rows > TABLE_FORMAT_LIMIT:
        note = f"the first {TABLE_FORMAT_LIMIT} rows; --limit shows more, --format json or csv shows all"
        say(note, err=True)


def tables_below(io: FileIO, root: str) -> list[str]:
    """Paths of the tables of a warehouse, or of a database if ``root`` is one; empty if it is neither."""
    if root.endswith(DATABASE_SUFFIX):
        warehouse, _, database = root.removesuffix(DATABASE_SUFFIX).rpartition("/")
        catalog = FilesystemCatalog(io, warehouse)
        found = catalog.names(database)
    else:
        catalog = FilesystemCatalog(io, root)
        found = catalog.names()
    return [catalog.files(name).paths.root for name in found]
