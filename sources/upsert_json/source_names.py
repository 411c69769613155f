"""Which source table a record is of: metadata says it in part, the topic and what is known say the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sources.changes import Behind, DecodeTarget, Goal, SourceTable


@dataclass(frozen=True, slots=True)
class RowNames:
    """Names of source tables: metadata says them, the topic says what is missing."""

    topic: str

    def table_of(self, database: str | None, schema: str | None, table: str | None) -> SourceTable:
        told = SourceTable.of_topic(self.topic)
        if not table:
            return told
        if self.topic.endswith(f".{table}"):
            # The name of the table may have dots itself.
            told = SourceTable.of_topic(f"{self.topic[: -len(table)]}x")
        schema = schema or (None if told.schema == database else told.schema)
        return SourceTable(self.topic, database or told.database, schema, table)


def known_as(source: SourceTable, known: Iterable[SourceTable]) -> SourceTable:
    """The known source table that is the same, as far as both say: records of one table may say more than others."""
    alike = [other for other in dict.fromkeys(known) if _may_be_same(source, other)]
    return alike[0] if len(alike) == 1 and source not in alike else source


def _may_be_same(one: SourceTable, other: SourceTable) -> bool:
    if (one.topic, one.table) != (other.topic, other.table):
        return False
    pairs = ((one.database, other.database), (one.schema, other.schema))
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def tables_of_topic(topic: str, found: Iterable[SourceTable], goals: Mapping[SourceTable, Goal]) -> list[SourceTable]:
    """The source tables that a record without a value may be of.

    These are the ones with a table and those of other records; else those that are known; else that of the topic.
    """
    known = [source for source in goals if source.topic == topic]
    stored = [source for source in known if isinstance(goals[source], DecodeTarget | Behind)]
    new = [source for source in found if source not in goals]
    return [*stored, *new] or known or [*found] or [SourceTable.of_topic(topic)]
