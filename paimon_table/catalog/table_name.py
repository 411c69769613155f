"""Names of Paimon tables."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.errors import ConfigError

DATABASE_SUFFIX = ".db"
"""The end of a database's directory name in filesystem catalogs."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A Paimon table of a catalog."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def of(cls, identifier: str) -> TableName:
        """The name in the text DATABASE.TABLE; as in Paimon, only the name of the table may have dots."""
        database, _, table = identifier.partition(".")
        return cls(database, table)


def check_name(name: TableName, reserved: str = "") -> None:
    """Raises ConfigError for a name that cannot be part of a path, or whose table name has a ``reserved`` character."""
    if "/" in str(name) or name.table in {"", ".", ".."} or {*reserved} & {*name.table}:
        raise ConfigError(f"{str(name)!r} cannot be the name of a table; write DATABASE.TABLE")
