"""The source table of a record: metadata gives a part of the name, the topic and known names give the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sources.changes import SourceTable
from sources.decode_target import Behind, DecodeTarget, Goal, Rejection


@dataclass(frozen=True, slots=True)
class RowNames:
    """Names of source tables: from the metadata, missing parts from the topic."""

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


def known_as(source: SourceTable, found: Iterable[SourceTable], goals: Mapping[SourceTable, Goal]) -> SourceTable:
    """The representative of a source table whose records name more or fewer of its parts.

    Source tables of ``goals`` and ``found`` are the same if they differ only in names that one side lacks. A source
    table with a table represents the others, or else a known one, or else the one with the most names. If a source
    table could be one of several, or rules route to several tables, each represents itself.
    """
    others = [other for other in dict.fromkeys([*goals, *found]) if _is_alike(source, other)]
    same = [source, *(other for other in others if other != source and _may_be_same(source, other))]
    linked = [other for other in others if any(_may_be_same(other, one) for one in same)]
    if not all(_may_be_same(one, other) for one in linked for other in linked):
        return source
    if len({goal.keys.table for one in same if isinstance(goal := goals.get(one), DecodeTarget) and goal.keys}) > 1:
        return source
    known = [other for other in others if other in goals and other in same]
    stored = [other for other in known if isinstance(goals[other], DecodeTarget | Behind)]
    return next(iter([*stored, *known]), max(same, key=_names_told))


def _is_alike(one: SourceTable, other: SourceTable) -> bool:
    return (one.topic, one.table) == (other.topic, other.table)


def _may_be_same(one: SourceTable, other: SourceTable) -> bool:
    pairs = ((one.database, other.database), (one.schema, other.schema))
    return _is_alike(one, other) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def _names_told(source: SourceTable) -> tuple[int, str, str]:
    names = (source.database, source.schema)
    return sum(name is not None for name in names), names[0] or "", names[1] or ""


def tables_of_topic(topic: str, found: Iterable[SourceTable], goals: Mapping[SourceTable, Goal]) -> list[SourceTable]:
    """The possible source tables of a record without a value; one if all lead to the same table.

    Candidates are the known source tables, including skipped and rejected ones, and the source tables of other records.
    If there are none, the topic itself names the source table. A source table without a row so far is a candidate only
    if there is no other.
    """
    found = [*found]
    known = [source for source in goals if source.topic == topic]
    shown = [source for source in known if not _is_empty(goals[source])]
    candidates = dict.fromkeys([*shown, *found]) or known or [SourceTable.of_topic(topic)]
    tables = [*dict.fromkeys(known_as(source, found, goals) for source in candidates)]
    return tables[:1] if _lead_to_one_table([goals.get(source) for source in tables]) else tables


def _is_empty(goal: Goal) -> bool:
    return isinstance(goal, Rejection) and goal.is_empty


def _lead_to_one_table(goals: Sequence[Goal]) -> bool:
    """Whether a key identifies the same row in each of the source tables."""
    targets = [goal for goal in goals if isinstance(goal, DecodeTarget) and goal.keys is not None]
    if len(targets) < len(goals) or not all({*goal.primary_key} <= {*dict(goal.columns)} for goal in targets):
        return False
    return len({goal.keys.table for goal in targets if goal.keys is not None}) == 1
