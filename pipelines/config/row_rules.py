"""Checks the rules about rows (`where`, computed keys) against the way the table merges: decisions without data."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Mapping

from paimon_table.option_declaration import listed
from paimon_table.options.field_options import named_columns
from paimon_table.options.names import (
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_GROUP,
)
from paimon_table.options.table_options import IGNORE_DELETE_ALIASES
from pipelines.config.column_rules import ColumnRules, KeyedHash
from pipelines.config.history_rules import ordered_filter_problem
from pipelines.config.order_config import lacking_for_deletes
from pipelines.config.table_rules import TargetRule
from sources.expressions.rule_words import OF_SOURCE, Leaving


def mask_key_name(rule: int, column: str) -> str:
    """The name of a masked column's secret key, for texts that must not show the key."""
    return f"{rule}:{column}"


def mask_key_of(rule: TargetRule, column: str) -> str | None:
    """That name for a masked column of the source; None if its mask has no key."""
    return mask_key_name(rule.number, column) if isinstance(rule.columns.mask[column], KeyedHash) else None


def mask_digests(columns: ColumnRules) -> tuple[str, ...]:
    """Distinguishes the secret keys of masks without showing them."""
    keys = (mask.key for mask in columns.mask.values() if isinstance(mask, KeyedHash))
    return tuple(hmac.digest(key.encode(), b"rules of a table", "sha256").hex() for key in keys)


def leaving_of(primary_key: Collection[str], merge_engine: str, changelog_producer: str) -> Leaving:
    """The meaning of rows that the filter rejects and whose old row is not in the event."""
    if not primary_key or merge_engine == "first-row":
        return Leaving.OMITTED
    if merge_engine == "deduplicate" and changelog_producer != "input":
        return Leaving.DELETED
    return Leaving.REFUSED


def row_problems(
    rule: TargetRule, primary_key: Collection[str], options: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (keys below the rule, problem) for a filter or a key that needs more than the source's events have.

    ``options`` are the options of the table, as texts.
    """
    merge_engine = options.get(MERGE_ENGINE, "deduplicate").strip().lower()
    changelog_producer = options.get(CHANGELOG_PRODUCER, "none").strip().lower()
    leaving = leaving_of(primary_key, merge_engine, changelog_producer)
    if rule.where is not None and rule.before != "full" and leaving is Leaving.REFUSED:
        yield (
            ("where",),
            f"with merge-engine {merge_engine} and changelog-producer {changelog_producer} it needs the old row of"
            " every update and delete. Let the source send whole old rows (PostgreSQL: REPLICA IDENTITY FULL;"
            " MySQL and MariaDB always do), and set `before: full` in the rule",
        )
    if rule.where is not None and leaving is not Leaving.OMITTED:
        yield from ((("where",), text) for text in _filter_problems(rule, options))
    yield from _varying_problems(rule, primary_key, merge_engine, changelog_producer)
    yield from _masked_order(rule, options)
    for name in primary_key:
        text = _key_problem(rule, name)
        if text is not None:
            yield ("primary_key",), text
    for key, names in (("primary_key", primary_key), ("partition_by", rule.partition_by)):
        for name in names:
            why = rule.columns.lacks(name) if name else None
            if why is not None:
                yield (key,), why


def _filter_problems(rule: TargetRule, options: Mapping[str, str]) -> Iterator[str]:
    """The obstacle to deleting a row that leaves the filter, or to deleting it in its order; None if there is none."""
    if options.get(ROWKIND_FIELD):
        yield (
            f"a row that leaves the condition is deleted, and option '{ROWKIND_FIELD}' reads the kind of each "
            "row from a column: remove one of the two"
        )
    ignoring = next((name for name in (IGNORE_DELETE, *IGNORE_DELETE_ALIASES) if _is_true(options.get(name))), None)
    if ignoring is not None and rule.deleted_at is None:
        yield (
            f"a row that leaves the condition is deleted, and option '{ignoring}' ignores deletes, so the row "
            "would stay. Remove one of the two, or write into a new table (another `into`) if the table has the option"
        )
    marked = ordered_filter_problem(rule, options)
    is_repeated = options.get(CHANGELOG_PRODUCER, "none").strip().lower() == "input"
    lacking = lacking_for_deletes(options) or (f"another '{CHANGELOG_PRODUCER}' than input" if is_repeated else None)
    if marked is not None:
        yield marked
    elif lacking is not None and options.get(SEQUENCE_FIELD):
        yield (
            f"with '{SEQUENCE_FIELD}' Tidemark deletes a row that leaves the condition, and keeps this delete "
            f"for some time so that no older record restores the row. This needs {lacking}: change it, or remove "
            "one of the two"
        )


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _masked_order(rule: TargetRule, options: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Masks of columns whose values decide which row is newer."""
    for option, value in options.items():
        is_group = option.endswith(f".{SEQUENCE_GROUP}")
        names = value if option == SEQUENCE_FIELD else named_columns(option) if is_group else ""
        for name in listed(names):
            if name in rule.columns.masks:
                column, _ = rule.columns.masks[name]
                yield (
                    ("columns", "mask", column),
                    f"option '{option}' orders rows by column {name!r}, and masked values have no order, so "
                    "older records would replace newer ones. Use another column, or remove the mask",
                )


def _varying_problems(
    rule: TargetRule, primary_key: Collection[str], merge_engine: str, changelog_producer: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Expressions that judge the old row of an update by the record of the new one."""
    from sources.expressions.computed import metadata_of

    if not primary_key:
        return
    texts: list[tuple[tuple[str, ...], str]] = [] if rule.where is None else [(("where",), rule.where)]
    if merge_engine == "aggregation" or changelog_producer == "input":
        texts += [(("columns", "add", name), text) for name, text in rule.columns.add.items()]
        texts += [(("columns", "replace", name), text) for name, text in rule.columns.replace.items()]
    for at, text in texts:
        varying = [f"${name}" for name in metadata_of(text) if name not in OF_SOURCE]
        if varying:
            yield (
                at,
                f"it depends on {varying[0]}, which differs from record to record: Tidemark would not recognise "
                "the old row of an update or delete. Use columns of the row, or $database, $schema, $table, $topic,"
                " $partition",
            )


def _key_problem(rule: TargetRule, name: str) -> str | None:
    from sources.expressions.computed import metadata_of

    columns = rule.columns
    if name in columns.masks:
        if mask_key_of(rule, columns.masks[name][0]) is not None:
            return None
        return (
            f"column {name!r} has a mask that gives several rows the same value: use a keyed hash ({{hash: sha256, key:"
            " ...}), or another key"
        )
    if name not in columns.expressions:
        return None
    varying = [f"${m}" for m in metadata_of(columns.expressions[name]) if m not in OF_SOURCE]
    if not varying:
        return None
    return (
        f"column {name!r} depends on {varying[0]}, which differs from record to record: an update or delete "
        "would not find its row. Use columns of the row, or $database, $schema, $table, $topic, $partition"
    )
