"""The schema of a new table, from its rule and the first events of a source table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from paimon_table import TableSchema, create_schema
from paimon_table.errors import ConfigError
from paimon_table.nearest_name import nearest
from paimon_table.options.option_facts import columns_named_by
from paimon_table.schema.schema_options import BUCKET_KEY
from paimon_table.types import DataType, Root
from pipelines.config.history_rules import partition_problem
from pipelines.config.own_columns import name_of_own
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import only_null
from pipelines.tables.observed_columns import Seen
from sinks.exchange.version_columns import HISTORY_OPTION, VersionColumns
from sources.changes import SourceTable
from sources.column_forms import OPTION, ColumnForms
from sources.record_look import other_words

_NESTED = frozenset({Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW})


def first_schema(source: SourceTable, seen: Seen, identifier: str, rule: TargetRule, time_ms: int) -> TableSchema:
    """The schema of a new table: declared types win over what the events show; only key columns are NOT NULL."""
    primary_key = primary_key_of(rule, seen)
    if not primary_key and rule.on_change is None:
        raise ConfigError(_without_key(source, identifier, f"no key{other_words(seen.columns)}"))
    of_key = {name: t for name, t in seen.key_only.items() if name in primary_key}
    shown = {**seen.columns, **of_key}
    types = {name: t for name, t in shown.items() if t is not None} | rule.declared(shown)
    own = dict(rule.own_columns)
    taken = next((name for name in types if name in own), None)
    if taken is not None:
        raise ConfigError(
            f"{source.topic}: table {identifier} cannot be created: column {taken!r}: {name_of_own(rule, taken)}"
        )
    types = own | types
    _check_key(source, identifier, seen, primary_key, rule, types)
    _check_named_columns(source, identifier, rule, types, shown)
    declared = (name for name in rule.column_types if name not in shown)
    ordered = [*dict(rule.event_columns), *shown, *declared, *dict(rule.columns_behind)]
    columns = [(name, types[name].with_nullable(True)) for name in ordered if name in types]
    forms = ColumnForms().learnt(seen.forms, dict(columns))
    options = {**rule.options, OPTION: forms.text} if forms.by_column else rule.options
    if rule.versions is None:
        return create_schema(columns, primary_key, rule.partition_by, options, time_ms=time_ms)
    options = {**options, **_options_of_versions(identifier, rule.versions, primary_key, rule.partition_by)}
    return create_schema(columns, (*primary_key, *rule.versions.key), rule.partition_by, options, time_ms=time_ms)


def _options_of_versions(
    identifier: str, versions: VersionColumns, primary_key: Sequence[str], partition_by: Sequence[str]
) -> dict[str, str]:
    """All versions of a row must be in one bucket, which depends only on their key."""
    problem = partition_problem(primary_key, partition_by)
    if problem is not None:
        raise ConfigError(f"table {identifier}: `history: scd2`: {problem}")
    of_bucket = ",".join(name for name in primary_key if name not in partition_by)
    return {BUCKET_KEY.name: of_bucket, HISTORY_OPTION: versions.option_value}


def _check_key(
    source: SourceTable,
    identifier: str,
    seen: Seen,
    primary_key: Collection[str],
    rule: TargetRule,
    types: Collection[str],
) -> None:
    """Every record needs the key columns; in a table without a key, NULL is a valid partition if its type is known."""
    brought = {*seen.columns, *seen.key_only, *(seen.key_columns or ()), *rule.columns.paths}
    missing = next((name for name in primary_key if name not in brought), None)
    untyped = next((name for name in primary_key if name not in types), None)
    if missing is None and untyped is not None:
        raise ConfigError(
            f"table {identifier}: column {untyped!r} of its key has only NULL so far in {source.topic}, so its type "
            "is unknown, and a key cannot be NULL. Set another primary_key, or declare the type under columns.types"
        )
    missing = missing or next((name for name in rule.partition_by if name not in types), None)
    if missing is None:
        return
    if missing in seen.columns:
        raise only_null(f"table {identifier}: partition_by", missing, f"{missing}: STRING")
    close = nearest(missing, brought)
    hint = f" (did you mean {close!r}?)" if close else ""
    declared = ". Declaring its type under columns.types is not enough" if missing in rule.column_types else ""
    raise ConfigError(
        f"table {identifier}: column {missing!r} of its key or partition is not in the events of {source.topic}{hint},"
        f" so no record could be stored{declared}; they have: {', '.join(seen.columns) or 'none'}"
    )


def _without_key(source: SourceTable, identifier: str, found: str) -> str:
    return (
        f"{source.topic}: its messages have {found}, so table {identifier} has no primary key."
        " Give the rule a primary_key, set `mode: append` to add a row for every record, or exclude the topic"
    )


def unusable_message_key(source: SourceTable, seen: Seen, identifier: str, rule: TargetRule) -> str | None:
    """Why the message key cannot be the primary key of a new table; None if it can, or if the rule sets one."""
    if rule.on_change is not None or rule.primary_key is not None or seen.key_columns is None:
        return None
    if not seen.key_columns:
        return _without_key(source, identifier, "a key without names of columns")
    beyond = [name for name in seen.key_columns if name not in seen.columns and name not in rule.column_types]
    key = ", ".join(seen.key_columns)
    if not beyond:
        types = {**seen.columns, **rule.column_types}
        nested = [(name, t) for name in seen.key_columns if (t := types[name]) is not None and t.root in _NESTED]
        return _nested_key(source, identifier, key, *nested[0]) if nested else None
    text = f"{source.topic}: table {identifier} is not created: {beyond[0]} of the message key ({key}) is in no row"
    twin = next((name for name in seen.columns if name.casefold() == beyond[0].casefold()), None)
    if twin is not None:
        return (
            f"{text}, which has {twin}. Let key and value of the connector write the same names, or set "
            "primary_key of a rule to the columns that identify a row"
        )
    return (
        f"{text}. To store it as a column of the key, set `primary_key: [{key}]` in a rule for the table. If other "
        "columns identify a row, set those"
    )


def _nested_key(source: SourceTable, identifier: str, key: str, column: str, t: DataType) -> str:
    return (
        f"{source.topic}: table {identifier} is not created: {column} of the message key ({key}) is {t}, which "
        f"cannot be a key. Declare `{column}: STRING` under columns.types of a rule to store its JSON text, or set "
        "primary_key to the columns that identify a row"
    )


def primary_key_of(rule: TargetRule, seen: Seen) -> tuple[str, ...]:
    """The primary key of a new table: from the rule, or from the messages; empty for an append table."""
    return () if rule.on_change is not None else rule.primary_key or tuple(seen.key_columns or ())


def _check_named_columns(
    source: SourceTable, identifier: str, rule: TargetRule, known: Collection[str], shown: Collection[str]
) -> None:
    """Options of a new table may name columns that appear later only if the rule declares them."""
    for option, value in rule.options.items():
        for column in columns_named_by(option, value):
            if column in shown and column not in known:
                raise only_null(f"table {identifier}: option {option!r}", column, f"{column}: BIGINT")
            if column not in known:
                close = nearest(column, known)
                hint = f" (did you mean {close!r}?)" if close else ""
                raise ConfigError(
                    f"table {identifier}: option {option!r} names column {column!r}, which the first events of"
                    f" {source.topic} do not have{hint}. Declare its type in the rule under columns.types"
                    f" (such as `{column}: BIGINT`), or remove the option. They have: {', '.join(known) or 'none'}",
                    option=option,
                    column=column,
                )
