"""Why a rule with `history` is wrong: decisions about a rule with its options, before any table exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_table.options.names import BUCKET, IGNORE_DELETE, KEEP_DELETES, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
from paimon_table.schema.schema_options import BUCKET_KEY
from pipelines.config.table_rules import TargetRule
from sinks.exchange.version_columns import VersionColumns


def history_problem(rule: TargetRule) -> str | None:
    """The problem with the history of a rule; None if there is none."""
    if rule.deleted_at is not None:
        return _of_soft_delete(rule)
    return _of_versions(rule, rule.versions) if rule.versions is not None else None


def _of_soft_delete(rule: TargetRule) -> str | None:
    ordered = ordered_filter_problem(rule, rule.options)
    if ordered is not None:
        return ordered
    if KEEP_DELETES in rule.options:
        return f"soft_delete stores no deletes that the option could keep; remove the option '{KEEP_DELETES}'"
    if rule.schema_changes.truncate == "apply":
        return "`schema_changes: {truncate: apply}` deletes rows that soft_delete keeps; set skip or pause"
    if rule.schema_changes.retype == "new_column":
        return "soft_delete keeps the columns of the source: set `schema_changes: {retype: cast}` or to_string"
    if _engine(rule) != "deduplicate" or rule.options.get(BUCKET) == "-2":
        return f"soft_delete needs '{MERGE_ENGINE}' = deduplicate and another '{BUCKET}' than -2: it looks up rows"
    return None


def ordered_filter_problem(rule: TargetRule, options: Mapping[str, str]) -> str | None:
    """The problem of a filter on a table with these options that marks deleted rows; None if there is none."""
    if rule.deleted_at is None or rule.where is None or not options.get(SEQUENCE_FIELD):
        return None
    by = "`order_by`" if rule.orders_by_position else f"the option '{SEQUENCE_FIELD}'"
    return (
        "with `where`, soft_delete applies records in order of arrival. If a row stops matching before its "
        f"older records arrive, there is no row to mark; remove {by}, or use scd2, which stores every version"
    )


def _of_versions(rule: TargetRule, columns: VersionColumns) -> str | None:
    if rule.orders_by_position:
        return "scd2 orders versions by the time of their change; remove `order_by`"
    if rule.schema_changes.truncate == "apply":
        return "`schema_changes: {truncate: apply}` deletes rows whose versions scd2 keeps; set skip or pause"
    if rule.schema_changes.retype == "new_column":
        return "scd2 keeps the columns of the source: set `schema_changes: {retype: cast}` or to_string"
    if _engine(rule) != "deduplicate":
        return f"scd2 needs '{MERGE_ENGINE}' = deduplicate: versions are whole rows; remove the option"
    if rule.options.get(BUCKET, "").strip() in ("-1", "-2"):
        return f"scd2 needs a fixed number of buckets ('{BUCKET}' = 4), so that all versions of a row are in one"
    for name, why in _NOT_WITH_VERSIONS.items():
        if name in rule.options:
            return f"scd2 {why}; remove the option '{name}'"
    if rule.watermark is not None and rule.watermark.column == columns.valid_to:
        return f"new versions have no time in {columns.valid_to} for `watermark`; name {columns.valid_from}"
    return None if rule.primary_key is None else partition_problem(rule.primary_key, rule.partition_by)


def partition_problem(primary_key: Sequence[str], partition_by: Sequence[str]) -> str | None:
    """The problem with the partitions of a table that keeps versions; None if there is none."""
    outside = next((name for name in partition_by if name not in primary_key), None)
    if outside is None:
        return None
    return (
        f"all versions of a row must stay in one partition: add {outside} of partition_by to primary_key"
        f" ({', '.join(primary_key)}), or remove it from partition_by"
    )


_NOT_WITH_VERSIONS = {
    SEQUENCE_FIELD: "orders versions by their time",
    BUCKET_KEY.name: "chooses the bucket by the key of the row",
    ROWKIND_FIELD: "tells deletes by the events",
    IGNORE_DELETE: "stores no deletes that could be ignored",
}


def _engine(rule: TargetRule) -> str:
    return rule.options.get(MERGE_ENGINE, "deduplicate").lower()
