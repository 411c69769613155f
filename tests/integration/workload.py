"""Random transactions on the source tables: inserts, updates, key changes, deletes, rollbacks; the seed decides all."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from tests.integration.source_tables import NULL_SHARE, TABLES, SourceColumn, SourceTable
from tests.stack.postgres import Postgres

Connection = psycopg.Connection[tuple[Any, ...]]
Key = tuple[Any, ...]

MARKER_TABLE = "zz_marker"
LARGEST_TRANSACTION = 8
ROLLBACK_SHARE = 0.05


class _Undone(Exception):
    """Ends a transaction that is rolled back on purpose."""


@dataclass(slots=True)
class Workload:
    """Runs random transactions over one connection in autocommit mode and knows which keys exist.

    `counts` has what was done, by kind of change, rolled back transactions apart. The tables must be changed by nobody
    else.
    """

    connection: Connection
    seed: int
    tables: tuple[SourceTable, ...] = TABLES
    counts: Counter[str] = field(default_factory=Counter)
    _random: Random = field(init=False)
    _keys: dict[str, list[Key]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._keys = {table.name: [] for table in self.tables}

    def create_tables(self) -> None:
        """Make the tables, and the marker table that tells a reader that all changes have arrived."""
        for table in self.tables:
            for statement in table.ddl():
                self.connection.execute(statement.encode())
        self.connection.execute(f"CREATE TABLE {MARKER_TABLE} (id int PRIMARY KEY)".encode())

    def fill(self, rows_per_table: int) -> None:
        """Insert rows that a connector finds when it takes its snapshot."""
        with self.connection.transaction():
            for table in self.tables:
                for _ in range(rows_per_table):
                    self._insert(table)

    def run(self, transactions: int) -> None:
        """Run random transactions, each on one or more tables; some roll back and must leave no trace."""
        for _ in range(transactions):
            known = {name: list(keys) for name, keys in self._keys.items()}
            counts = self.counts.copy()
            try:
                with self.connection.transaction():
                    for _ in range(self._random.randrange(1, LARGEST_TRANSACTION + 1)):
                        self._change(self._random.choice(self.tables))
                    if self._random.random() < ROLLBACK_SHARE:
                        raise _Undone
            except _Undone:
                self._keys, self.counts = known, counts
                self.counts["rolled back"] += 1

    def mark_end(self, marker: int) -> None:
        """Insert a row into the marker table: once it is in its topic, everything before it is in its own."""
        self.connection.execute(f"INSERT INTO {MARKER_TABLE} VALUES (%s)".encode(), (marker,))

    def _change(self, table: SourceTable) -> None:
        if not self._keys[table.name]:
            self._insert(table)
            return
        choices: list[tuple[int, Callable[[SourceTable], None]]] = [
            (20, self._insert),
            (55, self._update),
            (8, self._change_key),
            (13, self._delete),
            (2, self._replace),
            (2, self._swap_keys),
        ]
        weights, actions = zip(*choices, strict=True)
        self._random.choices(actions, weights)[0](table)

    def _insert(self, table: SourceTable) -> None:
        key = self._fresh_key(table)
        self._insert_row(table, key)
        self._keys[table.name].append(key)
        self.counts["insert"] += 1

    def _update(self, table: SourceTable) -> None:
        """Change some columns, so that unchanged large values stay out of PostgreSQL's log."""
        columns = self._random.sample(table.values, self._random.randrange(1, len(table.values) + 1))
        self._set(table, self._any_key(table), {column.name: self._value(column) for column in columns})
        self.counts["update"] += 1

    def _change_key(self, table: SourceTable) -> None:
        key, new_key = self._any_key(table), self._fresh_key(table)
        self._set_key(table, key, new_key)
        self._keys[table.name].remove(key)
        self._keys[table.name].append(new_key)
        self.counts["key change"] += 1

    def _delete(self, table: SourceTable) -> None:
        key = self._any_key(table)
        self._delete_row(table, key)
        self._keys[table.name].remove(key)
        self.counts["delete"] += 1

    def _replace(self, table: SourceTable) -> None:
        """Delete a row and insert its key again, in one transaction."""
        key = self._any_key(table)
        self._delete_row(table, key)
        self._insert_row(table, key)
        self.counts["replace"] += 1

    def _swap_keys(self, table: SourceTable) -> None:
        """Let two rows trade their keys, through a third one."""
        if len(self._keys[table.name]) < 2:
            return
        one, other = self._random.sample(self._keys[table.name], 2)
        between = self._fresh_key(table)
        self._set_key(table, one, between)
        self._set_key(table, other, one)
        self._set_key(table, between, other)
        self.counts["key swap"] += 1

    def _any_key(self, table: SourceTable) -> Key:
        return self._random.choice(self._keys[table.name])

    def _fresh_key(self, table: SourceTable) -> Key:
        taken = set(self._keys[table.name])
        while True:
            key = tuple(column.make(self._random) for column in table.key)
            if key not in taken:
                return key

    def _value(self, column: SourceColumn) -> Any:
        return None if self._random.random() < NULL_SHARE else column.make(self._random)

    def _insert_row(self, table: SourceTable, key: Key) -> None:
        values = [*key, *(self._value(column) for column in table.values)]
        statement = sql.SQL("INSERT INTO {} VALUES ({})").format(
            sql.Identifier(table.name), sql.SQL(", ").join(sql.Placeholder() * len(values))
        )
        self.connection.execute(statement, values)

    def _set_key(self, table: SourceTable, key: Key, new_key: Key) -> None:
        self._set(table, key, dict(zip((column.name for column in table.key), new_key, strict=True)))

    def _set(self, table: SourceTable, key: Key, values: Mapping[str, Any]) -> None:
        settings = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in values)
        statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(table.name), settings, _with_key(table))
        self._execute_on_one_row(statement, (*values.values(), *key))

    def _delete_row(self, table: SourceTable, key: Key) -> None:
        statement = sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table.name), _with_key(table))
        self._execute_on_one_row(statement, key)

    def _execute_on_one_row(self, statement: sql.Composed, parameters: Key) -> None:
        count = self.connection.execute(statement, parameters).rowcount
        assert count == 1, f"{statement.as_string(self.connection)} touched {count} rows, wanted one"


def _with_key(table: SourceTable) -> sql.Composed:
    return sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(column.name)) for column in table.key)


def new_workload(postgres: Postgres, database: str, seed: int) -> Workload:
    postgres.create_database(database)
    workload = Workload(postgres.connect(database), seed)
    workload.create_tables()
    return workload
