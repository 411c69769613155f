"""The `tables` and `otherwise` blocks: which source tables go into which Paimon table, and how that table is made."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from paimon_table import TableName, TableSchema
from paimon_table.errors import ConfigError
from paimon_table.options.field_options import AGGREGATING
from paimon_table.options.names import KEEP_DELETES, MERGE_ENGINE, SEQUENCE_FIELD
from paimon_table.types import DataType
from pipelines.config.column_rules import ColumnRules, Expression, first_match
from pipelines.config.config_values import ConfigModel, OptionOrNull, Text, refused
from pipelines.config.error_budget import NEARLY_ALL, Budget, MaxBadRecords
from pipelines.config.history_config import History
from pipelines.config.key_options import without_key_options
from pipelines.config.order_config import OrderBy, columns_of_order, options_of_leaving
from pipelines.config.schema_changes import EVOLVE, SchemaChanges
from pipelines.config.table_match import PLACEHOLDER, PLACEHOLDERS, Into, Match
from pipelines.config.table_name import name_problem
from pipelines.config.watermark import Watermark
from sinks.exchange.version_columns import VersionColumns
from sources.column_sources import OPTION as COLUMN_SOURCES
from sources.column_sources import ColumnSources
from sources.event_columns import EVENT_COLUMNS, TIME_TYPE, OnChange
from sources.position_kinds import POSITION
from sources.wording import lack_of_name

MergeSources = Literal["same_rows", "disjoint_keys"]
"""Why rows of several source tables may meet in one table."""


class NewColumns(ConfigModel):
    """How many columns Tidemark adds to a table that lacks them. Declared columns do not count."""

    max_per_day: int = Field(
        default=100,
        ge=1,
        description="The most new columns of one table within 24 hours, in addition to its first schema.",
    )
    beyond: Literal["quarantine", "ignore", "pause"] = Field(
        default="quarantine",
        description="If a record has a value in a further new column, `quarantine` stores the record in the "
        "quarantine. `ignore` drops the value. With `pause` the table fails (`on_table_failure`).",
    )


Mode = Literal["upsert", "append"]
"""The effect of a record on the table: change the row of its key, or add a row."""


OnTableFailure = Literal["pause", "stop"]
"""What happens if a table cannot be written: it waits at its position while the others continue, or the pipeline
stops."""


class TableRule(ConfigModel):
    """One rule: source tables that match go into one Paimon table."""

    NOT_YET: ClassVar[Mapping[str, str]] = {
        "filter": "use `where`",
        **dict.fromkeys(("rename", "mask", "drop", "keep", "add"), "it belongs under `columns`"),
        **dict.fromkeys(("computed", "transform"), "use `columns.add` or `columns.replace`"),
    }

    match: Match = Field(description="Which source tables the rule applies to; the first rule that matches applies.")
    into: Into = Field(
        description="Target, `DATABASE.TABLE`; `{database}`, `{schema}`, `{table}` and `{topic}` are replaced by "
        "the names of the source table. The table is in `WAREHOUSE/DATABASE.db/TABLE`. Tidemark refuses names with "
        "`$`, slashes "
        "or invisible characters, names of more than 255 bytes, databases with a dot, and the database `sys`."
    )
    mode: Mode | None = Field(
        default=None,
        description="`upsert`: a table with a primary key, which has the newest row of each key. `append`: a table "
        "without a primary key, to which every record adds a row, such as a log of events; records need no key. The "
        "default is `upsert`. If the rule sets neither mode nor key, and the first records have no key, the new "
        "table is a log of events (`append`, `on_change: log`).",
    )
    on_change: OnChange | None = Field(
        default=None,
        description="With `mode: append`, updates and deletes have no row to change. With `fail` the table fails "
        "at the first one (`on_table_failure`). `skip` skips and counts them. `log` stores every event as a row. "
        "Its first columns are `event_kind` (`+I`, `+U`, `-D`; with `before: full` also `-U`), `event_op`, "
        "`event_time`, `event_topic`, `event_partition` and `event_offset`.",
        json_schema_extra={"default": "fail"},
    )
    primary_key: tuple[Text, ...] | None = Field(
        default=None, description="Primary key columns; by default the columns of the message key."
    )
    partition_by: tuple[Text, ...] = Field(
        default=(),
        description="Partition columns. With `mode: upsert`, a column that is not part of the primary key needs "
        "`bucket: -1`: rows then move between partitions.",
    )
    merge_sources: MergeSources | None = Field(
        default=None,
        description="Allows several source tables to feed this table. `same_rows`: they have parts or copies of the "
        "same rows, and a key has the same meaning in all of them. `disjoint_keys`: no two of them ever share a "
        "key, because a column of the key distinguishes them. Without `merge_sources` Tidemark refuses a second "
        "source table.",
    )
    before: Literal["full"] | None = Field(
        default=None,
        description="`full` declares that the source sends whole old rows with updates and deletes (PostgreSQL: "
        "REPLICA IDENTITY FULL; MySQL and MariaDB always do). If the primary key has columns that are not in the "
        "message key, deletes need it. An embedded schema may also show it.",
    )
    columns: ColumnRules = Field(
        default_factory=ColumnRules, description="Which columns the table has, and their types."
    )
    where: Expression | None = Field(
        default=None,
        description="An SQL condition over the columns of the source: the table has only the rows that match it. If "
        "a row no longer matches, Tidemark deletes the row (with `history` it marks the row, or ends its version). "
        "If a row starts to match, Tidemark inserts it.",
    )
    new_columns: NewColumns | None = Field(
        default=None, description="How many columns Tidemark adds; it overrides `defaults.new_columns`."
    )
    history: History | None = Field(
        default=None,
        description="By default the table has only the newest rows. `soft_delete` keeps deleted rows, with the "
        "time of the delete in a column `deleted_at`; a later insert of the key clears it. `scd2` keeps every "
        "version of a row, with the columns `valid_from`, `valid_to` and `is_current`.",
    )
    order_by: OrderBy | None = Field(
        default=None,
        description="By default the record that arrives later is the newer one. With `source_position` the position "
        "of the change in the log of the source decides, for all topics and partitions. The table gets the "
        "columns `_tidemark_position` and `_tidemark_deleted_at`.",
    )
    watermark: Watermark | None = Field(
        default=None,
        description="Sets a watermark in the table's snapshots from the event time, for readers that wait until a "
        "time is complete. It follows the topic partition that lags most, and never goes back.",
    )
    schema_changes: SchemaChanges | None = Field(
        default=None,
        description="How the table follows changes of the source's schema; a word for a kind overrides "
        "`defaults.schema_changes`, and a preset overrides all words there.",
    )
    max_bad_records: MaxBadRecords | None = Field(
        default=None,
        description="How many bad records one batch may have; it overrides `defaults.max_bad_records`, and null "
        "removes the limit.",
    )
    on_table_failure: OnTableFailure | None = Field(
        default=None, description="What happens if the table fails; it overrides the word at the top level."
    )
    backfill: bool = Field(
        default=False,
        description="Fills a new table if the pipeline has already read its topics: from the earliest records, "
        "alongside the stream. Then the table joins the stream. Without `backfill` such a table gets only new "
        "records. `match.topic` names the topics to reread; without it Tidemark rereads all topics "
        "([details](RECOVERY.md#a-new-rule-for-topics-already-read)).",
    )
    options: Mapping[str, OptionOrNull] = Field(
        default_factory=dict,
        description="Paimon table options under their Paimon names. They override `defaults.options`, and null "
        "removes a default.",
    )

    @field_validator("primary_key", "partition_by")
    @classmethod
    def _distinct(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        repeated = [name for i, name in enumerate(columns or ()) if name in (columns or ())[:i]]
        if repeated:
            raise refused(f"column {repeated[0]} is named twice")
        if columns == ():
            raise refused("expected at least one column; leave the key out for the default")
        return columns

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.mode == "append":
            self._check_append()
        elif self.on_change is not None:
            raise refused("`on_change` has no effect without `mode: append`; remove it, or add the mode", "on_change")
        if self.merge_sources is not None and self.schema_changes and self.schema_changes.truncate == "apply":
            text = "'apply' would also delete rows of the other sources; set skip or pause, or use separate tables"
            raise refused(text, "schema_changes", "truncate")
        words = {} if self.schema_changes is None else self.schema_changes.words
        for kind, word in (("drop", "drop"), ("rename", "apply"), ("rename", "pause"), ("retype", "new_column")):
            if self.merge_sources is not None and words.get(kind) == word:
                text = (
                    f"'{word}' would follow only one of several source tables; remove the word, or give each "
                    "source a separate table"
                )
                raise refused(text, "schema_changes", kind)
        if self.primary_key and set(self.primary_key) == set(self.partition_by):
            raise refused("primary_key equals partition_by: every partition would hold one row; add a key column")
        return self

    def _check_append(self) -> None:
        if self.order_by is not None:
            text = "with `mode: append` every record adds a row, and none replaces another; remove one of them"
            raise refused(text, "order_by")
        if self.history is not None:
            text = (
                "`history` needs the keys of rows, and a table with `mode: append` has none. Remove one of the two, or"
                " keep each change as a row with `on_change: log`"
            )
            raise refused(text, "history")
        if self.schema_changes is not None and self.schema_changes.truncate == "apply":
            text = "'apply' needs a primary key: rows of a table with `mode: append` are not deleted; set skip or pause"
            raise refused(text, "schema_changes", "truncate")
        if self.primary_key is not None:
            raise refused("a table with `mode: append` has no primary key; remove it or the mode", "primary_key")
        if self.merge_sources is not None:
            text = "with `mode: append` rows of several sources never replace each other; remove it"
            raise refused(text, "merge_sources")
        if self.before is not None and self.on_change != "log":
            text = "with `mode: append` only `on_change: log` stores old rows; remove it, or add `on_change: log`"
            raise refused(text, "before")

    @property
    def tells_key(self) -> bool:
        """Whether the rule itself states the primary key of its tables, or that they have none."""
        own = any(name in self.columns.types for name, _ in EVENT_COLUMNS)
        is_stated = self.primary_key is not None or self.merge_sources is not None
        return self.mode is not None or own or is_stated or self.needs_key is not None

    @property
    def needs_key(self) -> str | None:
        """What in the rule only a table with a primary key can have, in words; None if there is nothing."""
        if self.mode is not None:
            return "`mode: upsert`" if self.mode == "upsert" else None
        stated = {name: value for name, value in self.options.items() if value is not None}
        of_any = without_key_options(stated)
        words = [word for word in ("history", "order_by") if getattr(self, word) is not None]
        word = next(iter([*words, *(name for name in stated if name not in of_any)]), None)
        return None if word is None else f"`{word}`"

    @property
    def names_one_table(self) -> bool:
        """Whether `into` is the name of a table, whatever the names of the source are."""
        return PLACEHOLDER.search(self.into) is None

    def matches(self, database: str | None, schema: str | None, table: str | None, topic: str) -> bool:
        return self.match.matches(database, schema, table, topic)


class CreateRule(ConfigModel):
    """Tables that no rule matches are created under a pattern of names."""

    into: Into = Field(default="{database}.{table}", description="Target, with the placeholders of a table rule.")


class Otherwise(ConfigModel):
    """What happens to source tables that no rule matches: a word, or `create` with its settings."""

    policy: Literal["skip", "fail", "create"] = Field(description="One of the three words.")
    create: CreateRule | None = Field(default=None, description="With `create`: where the tables go.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        match value:
            case "skip" | "fail":
                return {"policy": value}
            case "create":
                return {"policy": "create", "create": {}}
            case {"create": _} if len(value) == 1:
                return {"policy": "create", **value}
            case _:
                raise refused("expected skip, fail, create or {create: {into: DATABASE.TABLE}}")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        create = handler.resolve_ref_schema(handler(core))["properties"]["create"]
        return {
            "anyOf": [
                {"enum": ["skip", "fail", "create"]},
                {
                    "type": "object",
                    "description": cls.__doc__,
                    "properties": {"create": create},
                    "required": ["create"],
                    "additionalProperties": False,
                },
            ]
        }


@dataclass(frozen=True, slots=True)
class TargetRule:
    """One rule for a target table, with the defaults applied."""

    into: str
    primary_key: tuple[str, ...] | None
    """None: the columns of the message key."""
    partition_by: tuple[str, ...]
    column_types: Mapping[str, DataType]
    """Options of single columns that the file names."""
    options: Mapping[str, str]
    assumed_options: frozenset[str] = frozenset()
    """The part of ``options`` that the file does not state: for new tables only."""
    merge_sources: MergeSources | None = None
    before: Literal["full"] | None = None
    new_columns: NewColumns = field(default_factory=NewColumns)
    schema_changes: SchemaChanges = EVOLVE
    """With a word for every kind."""
    deleted_at: str | None = None
    """The column with the time of the delete, where deleted rows stay."""
    orders_by_position: bool = False
    """Whether the place in the log of the source decides which record of a key is the newest."""
    on_change: OnChange | None = None
    """The effect of updates and deletes in a table without primary key; None for tables with one."""
    max_bad_records: Budget | None = NEARLY_ALL
    """How many bad records one batch may have; None: any number."""
    on_table_failure: OnTableFailure = "pause"
    backfill: bool = False
    columns: ColumnRules = field(default_factory=ColumnRules)
    where: str | None = None
    versions: VersionColumns | None = None
    """The columns that say when a version holds, where every version of a row stays."""
    watermark: Watermark | None = None
    is_filtered: bool = False
    """Whether the filter of a rule for the table may reject a row that the source still has."""
    moves_keys: bool = False
    """Whether an update may move a row to another key, unless the message key has all columns of the stated one."""
    number: int = field(default=-1, compare=False)
    """Its place among the rules of the file."""
    is_log_assumed: bool = field(default=False, repr=False)
    """Whether ``on_change`` is `log` because the records have no key, and not because the file sets it."""
    without_keys: TargetRule | None = field(default=None, repr=False)
    """The rule for a new table whose source has records without key.

    None if the file states a mode, or if the kind of table is already known.
    """

    def for_keys(self, message_key: Collection[str] | None) -> TargetRule:
        """The rule for a new table; ``message_key`` are the columns of the message key, None for records without."""
        rule = self._of_kind(has_keys=message_key is not None)
        fixed = {self.columns.stored_as(name) for name in message_key or ()}
        moves = rule.moves_keys and rule.on_change is None and not fixed.issuperset(self.primary_key or ())
        return replace(rule, options={**rule.options, **rule._kept_if_ordered(rule.options)}) if moves else rule

    def _of_kind(self, *, has_keys: bool) -> TargetRule:
        return replace(self, without_keys=None) if has_keys or self.without_keys is None else self.without_keys

    def for_table(self, schema: TableSchema) -> TargetRule:
        """The rule for a table that exists: the rule of an event log if it is one.

        If a column of the source continues in another column of the table, it has the name of that column. A table
        that keeps deletes for a while continues to do so.
        """
        is_log = not schema.primary_keys and all(schema.has_column(name) for name, _ in EVENT_COLUMNS)
        rule = self._of_kind(has_keys=not is_log)
        rule = replace(rule, options={**rule._kept_deletes(schema.options), **rule.options})
        continued = ColumnSources.parsed(schema.options.get(COLUMN_SOURCES)).continued
        if not continued:
            return rule
        stored = {source: names[-1] for source, names in continued.items() if schema.has_column(names[-1])}
        columns = rule.columns.model_copy(update={"rename": {**rule.columns.rename, **stored}})
        return replace(rule, columns=columns)

    def _kept_deletes(self, of_table: Mapping[str, str]) -> dict[str, str]:
        """The option of a table whose deletes stay for a while, or are to stay from now on."""
        if KEEP_DELETES in of_table:
            return {KEEP_DELETES: of_table[KEEP_DELETES]}
        return self._kept_if_ordered(of_table) if self.is_filtered else {}

    def _kept_if_ordered(self, options: Mapping[str, str]) -> dict[str, str]:
        is_ordered = SEQUENCE_FIELD in options and self.versions is None and self.deleted_at is None
        return options_of_leaving(options) if is_ordered else {}

    @property
    def changes_rows(self) -> bool:
        """Whether rows of the table differ from rows of the source."""
        return self.where is not None or self.columns.changes_rows

    def declared(self, columns: Iterable[str]) -> dict[str, DataType]:
        """The declared types: of all columns that the file names, and of ``columns`` that a pattern matches."""
        told_by_mask = self.columns.masked_as_text
        found = {name: first_match(self.columns.types, name) for name in columns if name not in told_by_mask}
        return {name: t for name, t in found.items() if t is not None} | dict(self.column_types)

    def declares(self, column: str) -> bool:
        """Whether the file names a column of the source and its type, by its name there or in the table."""
        types = self.columns.named_types
        return column in types or self.columns.stored_as(column) in types

    def decimal_formats(self, columns: Iterable[str]) -> dict[str, str]:
        """The ``decimal_format`` of the columns for which the rule states one."""
        stated = {name: first_match(self.columns.decimal_formats, name) for name in columns}
        found = {name: form or self.columns.decimal_format for name, form in stated.items()}
        return {name: form for name, form in found.items() if form is not None}

    @property
    def event_columns(self) -> tuple[tuple[str, DataType], ...]:
        """The columns that the table has in front of the columns of its sources."""
        return EVENT_COLUMNS if self.on_change == "log" else ()

    @property
    def own_columns(self) -> tuple[tuple[str, DataType], ...]:
        """All columns that Tidemark fills itself."""
        return self.event_columns + self.columns_behind

    @property
    def columns_behind(self) -> tuple[tuple[str, DataType], ...]:
        """The own columns that follow the columns of the source in a new table."""
        kept = () if self.deleted_at is None else ((self.deleted_at, TIME_TYPE),)
        return kept + (() if self.versions is None else self.versions.columns) + self.order_columns

    @property
    def order_columns(self) -> tuple[tuple[str, DataType], ...]:
        """The own columns that order the rows and their deletes."""
        found = columns_of_order(self.options) if self.on_change is None else ()
        return tuple((name, t) for name, t in found if name != POSITION or self.orders_by_position)

    def joins_parts(self, options: Mapping[str, str]) -> bool:
        """Whether a row of a table with these options combines parts that several source tables send."""
        return self.merge_sources == "same_rows" and options.get(MERGE_ENGINE, "").strip().lower() in AGGREGATING

    def row_key(self, primary_key: Iterable[str]) -> tuple[str, ...]:
        """The columns of the table's primary key that distinguish rows of the source."""
        return tuple(primary_key) if self.versions is None else self.versions.row_key(primary_key)

    def writes_like(self, other: TargetRule) -> bool:
        """Whether both write a table in the same way: with a key, as plain rows, or as a log of events."""
        return (self.on_change is None) == (other.on_change is None) and self.own_columns == other.own_columns

    def target(self, database: str | None, schema: str | None, table: str | None, topic: str) -> TableName:
        """Name of the Paimon table for a source table.

        Raises ConfigError when `into` needs a name that the source does not have or that cannot be a table name.
        """
        names = dict(zip(PLACEHOLDERS, (database, schema, table, topic), strict=True))

        def value_of(placeholder: re.Match[str]) -> str:
            name = names[placeholder[1]]
            if name is None:
                lack = lack_of_name(placeholder[1], topic, database, schema, "{{{}}}")
                raise ConfigError(f"into: {self.into!r} uses {{{placeholder[1]}}}: {lack}")
            return name

        name = TableName(*(PLACEHOLDER.sub(value_of, part) for part in _split_into(self.into)))
        problem = name_problem(name)
        if problem is not None:
            raise ConfigError(f"into: {self.into!r} for topic {topic}: {problem}")
        return name


def _split_into(into: str) -> tuple[str, str]:
    database, _, table = into.partition(".")
    return database, table
