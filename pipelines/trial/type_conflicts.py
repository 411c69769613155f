"""Columns whose types differ among the source tables of one table: shards that have drifted apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from paimon_table import TableSchema, can_become_text
from paimon_table.types import DataType, sql, string
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import widened
from pipelines.tables.merged_sources import fed_by as as_fed
from pipelines.tables.merged_sources import source_words
from pipelines.tables.observed_columns import merged
from sources.changes import Observation, SourceTable
from sources.wording import first_of

_SOURCES_SHOWN = 3


def conflicts(
    schema: TableSchema, rule: TargetRule | None, sources: Collection[SourceTable], seen: Iterable[Observation]
) -> Iterator[str]:
    """A line for each column whose type differs among the ``sources`` of a table, with its type in the table.

    If the table has a declared type, guesses from values do not count: the declared type decides how they are read.
    """
    renamed = {} if rule is None else rule.columns.rename
    declared = {} if rule is None else rule.declared(schema.column_names)
    for name, by_type in _types([o for o in seen if o.source in sources], renamed, declared).items():
        if len(by_type) < 2 or not schema.has_column(name):
            continue
        present = schema.field(name).type.with_nullable(True)
        shown = "; ".join(f"{sql(t)} in {', '.join(first_of(where, _SOURCES_SHOWN))}" for t, where in by_type.items())
        yield f"column {name} is {shown}. The table has {sql(present)}{_end(present, by_type)}"


def _end(present: DataType, by_type: Collection[DataType]) -> str:
    lost = [sql(t) for t in by_type if not _holds(present, t)]
    if not lost:
        return ", which holds all of them"
    return (
        f": values of {' and '.join(lost)} that do not fit go to quarantine. To store them in the table, declare "
        "a type for all sources under columns.types, such as STRING"
    )


def _holds(present: DataType, t: DataType) -> bool:
    return widened(present, t) == present or (present == string() and can_become_text(t))


def _types(
    seen: Collection[Observation], renamed: Mapping[str, str], declared: Collection[str]
) -> Mapping[str, Mapping[DataType, list[str]]]:
    """By column of the table each type of the sources, with the sources that have it."""
    by_schema = {(o.source, column.name) for o in seen for column in o.columns if column.votes is not None}
    found: defaultdict[str, dict[DataType, list[str]]] = defaultdict(dict)
    for source, observed in merged(seen).items():
        for name, t in observed.columns.items():
            stored = renamed.get(name, name)
            if t is not None and (stored not in declared or (source, name) in by_schema):
                found[stored].setdefault(t.with_nullable(True), []).append(source_words(as_fed(source)))
    return found
