"""What a rule says of rows, `where` and computed keys, against how its table merges: decisions without any data."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator

from pipelines.config.column_rules import ColumnRules, KeyedHash
from pipelines.config.table_rules import TargetRule
from sources.expressions.rule_words import OF_SOURCE, Leaving
from sources.position_kinds import POSITION


def mask_key_name(rule: int, column: str) -> str:
    """What the secret key of a masked column of a rule is called where the key itself must not stand."""
    return f"{rule}:{column}"


def mask_key_of(rule: TargetRule, column: str) -> str | None:
    """That name for a masked column of the source; None where its mask has no key."""
    return mask_key_name(rule.number, column) if isinstance(rule.columns.mask[column], KeyedHash) else None


def mask_digests(columns: ColumnRules) -> tuple[str, ...]:
    """What tells the secret keys of masks from others, and does not show them."""
    keys = (mask.key for mask in columns.mask.values() if isinstance(mask, KeyedHash))
    return tuple(hmac.digest(key.encode(), b"rules of a table", "sha256").hex() for key in keys)


def leaving_of(primary_key: Collection[str], merge_engine: str, changelog_producer: str) -> Leaving:
    """What rows mean that the filter does not take and whose old row is not in the event."""
    if not primary_key or merge_engine == "first-row":
        return Leaving.OMITTED
    if merge_engine == "deduplicate" and changelog_producer != "input":
        return Leaving.DELETED
    return Leaving.REFUSED


def row_problems(
    rule: TargetRule,
    primary_key: Collection[str],
    merge_engine: str,
    changelog_producer: str,
    sequence_fields: Collection[str],
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(keys below the rule, what is wrong) for a filter or a key that the events of the source cannot serve."""
    leaving = leaving_of(primary_key, merge_engine, changelog_producer)
    if rule.where is not None and rule.before != "full" and leaving is Leaving.REFUSED:
        yield (
            ("where",),
            f"with merge-engine {merge_engine} and changelog-producer {changelog_producer} it needs the old row of"
            " every update and delete: let the source send whole old rows (PostgreSQL: REPLICA IDENTITY FULL;"
            " MySQL and MariaDB always do), and say `before: full` in the rule",
        )
    if rule.where is not None and primary_key and {*sequence_fields} - {POSITION}:
        yield (
            ("where",),
            "with 'sequence.field' a row that leaves the condition cannot be deleted in the right order: an older"
            " update would delete a newer row, or bring a deleted one back; remove one of the two",
        )
    yield from _varying_problems(rule, primary_key, merge_engine, changelog_producer)
    for name in primary_key:
        text = _key_problem(rule, name)
        if text is not None:
            yield ("primary_key",), text
    for key, names in (("primary_key", primary_key), ("partition_by", rule.partition_by)):
        for name in names:
            source = rule.columns.source_of(name)
            if name and source is not None and rule.columns.leaves_out(source):
                yield (key,), f"column {name!r} is left out of the table by `columns`: keep it"


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
                f"it depends on {varying[0]}, which differs from record to record: the old row of an update or delete"
                " would be taken for another one; take columns of the row, or $database, $schema, $table, $topic,"
                " $partition",
            )


def _key_problem(rule: TargetRule, name: str) -> str | None:
    from sources.expressions.computed import metadata_of

    columns = rule.columns
    if name in columns.masks:
        if mask_key_of(rule, columns.masks[name][0]) is not None:
            return None
        return (
            f"column {name!r} is masked so that several rows get one value: use a keyed hash ({{hash: sha256, key:"
            " ...}), or another key"
        )
    if name not in columns.expressions:
        return None
    varying = [f"${m}" for m in metadata_of(columns.expressions[name]) if m not in OF_SOURCE]
    if not varying:
        return None
    return (
        f"column {name!r} depends on {varying[0]}, which differs from record to record: an update or delete would not"
        " find its row; take columns of the row, or $database, $schema, $table, $topic, $partition"
    )
