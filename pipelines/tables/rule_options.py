"""The options of a table rule against the options of an existing table.

The rule wins: options that differ go into the next schema version, if Paimon's ALTER TABLE allows the change.
Options that only the table has stay, because others may have set them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from paimon_table import DataFileMeta, SetOption, Table, TableSchema
from paimon_table.errors import ConfigError
from paimon_table.nearest_name import misspelt_column
from paimon_table.options import option_names
from paimon_table.options.names import (
    AGGREGATION_REMOVE_ON_DELETE,
    BUCKET,
    DELETION_VECTORS,
    DELETION_VECTORS_MODIFIABLE,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_GROUP,
    RECORD_EXPIRE_TIME,
    RECORD_TIME_FIELD,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
)
from paimon_table.options.option_facts import columns_named_by, is_typed
from paimon_table.options.option_parsing import parse_options
from paimon_table.schema.schema_options import BUCKET_KEY, KEY_OPTIONS, TYPE
from pipelines.config.config_checks import warn_once
from pipelines.config.table_rules import TargetRule
from pipelines.tables.rule_plan import RulePlan
from sources.position_kinds import POSITION

_PARTNERS = {RECORD_EXPIRE_TIME: RECORD_TIME_FIELD}
"""Options that are refused without another one, which names a column."""

_OF_ORDER = (SEQUENCE_FIELD, SEQUENCE_SORT_ORDER)
"""Options that decide which row of a key is the newest."""

_KEYS = tuple(option.name for option in KEY_OPTIONS)


OF_MERGING = (
    *(MERGE_ENGINE, ROWKIND_FIELD, DELETION_VECTORS, IGNORE_DELETE, IGNORE_UPDATE_BEFORE),
    *(f"{engine}.ignore-delete" for engine in ("deduplicate", "first-row", "partial-update")),
    *(AGGREGATION_REMOVE_ON_DELETE, PARTIAL_UPDATE_REMOVE_ON_DELETE, PARTIAL_UPDATE_REMOVE_ON_GROUP),
)
"""Options that a table cannot change over its rows, and that a rebuild can apply to a table with a key."""


def plan_options(rule: TargetRule, plan: RulePlan) -> None:
    """Add the options of a rule to the plan.

    Options that name columns which the table lacks wait until the columns are added. Raises ConfigError for options
    that can no longer change.
    """
    changes: list[SetOption] = []
    waiting: list[SetOption] = []
    table, identifier = plan.table, plan.identifier
    try:
        changes = option_changes(table, rule, identifier)
        waiting = [c for c in changes if not _columns_of(c, changes) <= {*table.schema.column_names}]
        changes = [c for c in changes if c not in waiting]
        _check_bucket(table, changes)
        _check_order(table, changes)
        if changes:
            told = ", ".join(_told(table.schema, change) for change in changes)
            plan.add(changes, f"{identifier}: options change as its rule says: {told}")
    except ConfigError as error:
        wanted = ", ".join(_told(table.schema, c) for c in changes)
        is_rebuilt = error.option in OF_MERGING and bool(table.schema.primary_keys)
        rebuild = f"`tidemark replay FILE --table {identifier} --rebuild`"
        rebuilt = f" stop the pipeline and rebuild the table by the new rule ({rebuild})," if is_rebuilt else ""
        raise error.told(
            f"pipeline {plan.pipeline}: the rule into {rule.into} changes options of table {identifier}"
            f"{f' ({wanted})' if wanted else ''}, which it refuses: {error}. Nothing was written: undo the change"
            f" in the pipeline file,{rebuilt} or write into a new table (another `into`, with `backfill: true`)"
        ) from error
    if waiting:
        names = ", ".join(_told_waiting(table.schema, change) for change in waiting)
        plan.warn(f"{identifier}: has no effect until the column that it names exists: {names}")


def option_changes(table: Table, rule: TargetRule, identifier: str) -> list[SetOption]:
    """The changes that set the table's options to the rule's; no change for options that the file does not state.

    If the rule states the number of buckets from before a rescale, the number is outdated and changes nothing.
    """
    changes = _changes(table.schema, rule)
    wanted = next((change.value for change in changes if change.name == BUCKET and change.value is not None), None)
    if wanted is None or not _had_buckets(table, wanted.strip()):
        return changes
    warn_once(
        "table %s has option 'bucket' %d now (it was rescaled or altered), but the rule into %s still sets %s. The "
        "table continues with %d; set that in the pipeline file%s",
        identifier,
        table.options.bucket,
        rule.into,
        wanted,
        table.options.bucket,
        _or_rescale(table, wanted.strip()),
    )
    return [change for change in changes if change.name != BUCKET]


def _had_buckets(table: Table, wanted: str) -> bool:
    """Whether an earlier schema of a table with rows had this number of buckets."""
    if table.snapshots.latest_id() is None:
        return False
    earlier = (schema for id_, schema in table.context.schemas.items() if id_ < table.schema.id)
    return any(schema.options.get(BUCKET, "-1").strip() == wanted for schema in earlier)


def _changes(schema: TableSchema, rule: TargetRule) -> list[SetOption]:
    changes = [
        SetOption(name, value)
        for name, value in rule.options.items()
        if name not in rule.assumed_options and name not in _KEYS and not _means_the_same(schema, name, value)
    ]
    # The permission to change another option counts only when it is there first.
    return sorted(changes, key=lambda change: change.name != DELETION_VECTORS_MODIFIABLE)


def options_of_new_columns(schema: TableSchema, rule: TargetRule, added: Collection[str]) -> list[SetOption]:
    """The options of the rule that waited for the columns ``added``."""
    columns = {*schema.column_names, *added}
    changes = _changes(schema, rule)
    named = [(change, _columns_of(change, changes)) for change in changes]
    return [change for change, names in named if names & set(added) and names <= columns]


def _columns_of(change: SetOption, changes: Collection[SetOption]) -> set[str]:
    """The columns that an option needs: it names them, or its partner among the changes does."""
    partner = _PARTNERS.get(change.name)
    both = [change, *(other for other in changes if other.name == partner)]
    return {column for each in both for column in columns_named_by(each.name, each.value or "")}


def _means_the_same(schema: TableSchema, name: str, value: str) -> bool:
    """Whether the option would change nothing in the table; an explicit default changes nothing."""
    present = schema.options.get(name)
    if present == value:
        return True
    if name == BUCKET_KEY.name:
        return tuple(value.split(",")) == schema.bucket_keys
    if name == TYPE.name:
        return (present or TYPE.default).lower() == value.lower()
    if name in option_names.REFUSED:
        return present is None and option_names.refusal_of(name, value) is None
    if not is_typed(name) or columns_named_by(name, value):
        return False
    with_value = {**schema.options, name: value}
    return parse_options(with_value, schema) == parse_options(schema.options, schema)


def _check_bucket(table: Table, changes: Collection[SetOption]) -> None:
    """Refuse another number of buckets: rows written with it would not meet the older rows of their keys."""
    wanted = next((change.value for change in changes if change.name == BUCKET), None)
    if wanted is not None and table.snapshots.latest_id() is not None:
        raise ConfigError(
            "option 'bucket' cannot change while the table holds rows in its buckets; set "
            f"{table.options.bucket}{_or_rescale(table, wanted.strip())}",
            option=BUCKET,
        )


def _check_order(table: Table, changes: Collection[SetOption]) -> None:
    """Refuse another order of rows before the stored rows are merged by the present one.

    Deletes often have no sequence, and older versions may have a higher one: they would win, and rows come back. No
    stored row has a source position, so with it the present order stays among them.
    """
    changed = [change for change in changes if change.name in _OF_ORDER and change.value != POSITION]
    if not changed or all(map(_is_merged, table.state().files.values())):
        return
    raise ConfigError(
        f"'{changed[0].name}' would also decide among rows that are not compacted yet, so deleted and older rows could"
        f" come back; stop the pipeline, run `tidemark table compact {table.paths.root} --full`, and start it again",
        option=changed[0].name,
    )


def _is_merged(files: Sequence[DataFileMeta]) -> bool:
    """Whether no key can be in two of the files of a bucket."""
    return not files or (len({file.level for file in files}) == 1 and files[0].level > 0)


def _or_rescale(table: Table, wanted: str) -> str:
    """The command that gives the table another number of buckets, in words, if there is one."""
    has_command = _is_rescaled(table.schema, f"{table.options.bucket}", wanted)
    command = f"tidemark table rescale {table.paths.root} --buckets {wanted}"
    return f", or rescale the table first: {command}" if has_command else ""


def _is_rescaled(schema: TableSchema, present: str, wanted: str) -> bool:
    """Whether there is such a command: the key has the partition columns, and it is not from -1 to -2 or back."""
    moves_rows = not set(schema.partition_keys) <= set(schema.primary_keys)
    return bool(schema.primary_keys) and not moves_rows and {present, wanted} != {"-1", "-2"}


def _told_waiting(schema: TableSchema, change: SetOption) -> str:
    """The option, with the columns that it may mean."""
    missing = [c for c in columns_named_by(change.name, change.value or "") if not schema.has_column(c)]
    slips = {column: misspelt_column(column, schema.column_names) for column in missing}
    hints = [f"{column!r}: did you mean {meant!r}?" for column, meant in slips.items() if meant is not None]
    return " ".join([f"{change.name} = {change.value}", *(f"({hint})" for hint in hints)])


def _told(schema: TableSchema, change: SetOption) -> str:
    present = schema.options.get(change.name)
    return f"{change.name} = {change.value}, was {'not set' if present is None else present}"
