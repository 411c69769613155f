"""The YAML of one pipeline as typed, frozen models: the single source of parsing, JSON Schema and reference docs.

Every default is declared here. Options of other systems (Paimon, Kafka, Spark, S3) keep their names and
are text below this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from paimon_table.nearest_name import nearest
from paimon_table.options.names import SEQUENCE_FIELD
from pipelines.config.catalog_config import Catalog
from pipelines.config.column_rules import KeyedHash
from pipelines.config.config_values import ConfigModel, Duration, Location, OptionOrNull, OptionText, Text, refused
from pipelines.config.error_budget import NEARLY_ALL, MaxBadRecords
from pipelines.config.history_rules import history_problem
from pipelines.config.key_options import without_key_options
from pipelines.config.look_config import Metrics, WebPage
from pipelines.config.order_config import options_of_leaving, options_of_order, order_problems
from pipelines.config.own_columns import ordering_own_column, taken_name
from pipelines.config.retry_config import Retry
from pipelines.config.row_rules import mask_key_name
from pipelines.config.schema_changes import BY_SCHEMA, SchemaChanges
from pipelines.config.source_config import Source
from pipelines.config.table_rules import Mode, NewColumns, OnTableFailure, Otherwise, TableRule, TargetRule

if TYPE_CHECKING:
    from sources.decode_target import Decoder

DEFAULT_TABLE_OPTIONS: Mapping[str, str] = {"bucket": "1"}
"""Options of a new table, which the file may override: a fixed bucket, because Paimon's own default is a dynamic one.
"""

DEFAULT_APPEND_OPTIONS: Mapping[str, str] = {"bucket": "-1"}
"""The same for a table without primary key: no buckets."""


_NO_OFFSETS = "'new_table' begins at an offset, and dump files are not read from one; set pause"


def default_options(mode: Mode) -> Mapping[str, str]:
    """The options of a new table that no file needs to say."""
    return DEFAULT_APPEND_OPTIONS if mode == "append" else DEFAULT_TABLE_OPTIONS


class Trigger(ConfigModel):
    """When micro-batches run: at an interval, or until all available records are read."""

    interval: Duration = Field(
        default=timedelta(seconds=60),
        json_schema_extra={"default": "60s"},
        description="Time between the starts of two batches, such as `500ms`, `60s`, `5m`, `1h`. If records are "
        "left after a batch, the next one follows at once, except with Spark's reader of Kafka.",
    )
    target_batch_duration: Duration = Field(
        default=timedelta(seconds=10),
        json_schema_extra={"default": "10s"},
        description="How long a batch should take. Tidemark chooses the number of its records by the duration of "
        "the last batches, up to `max_records_per_batch`. It has no effect with Spark's reader of Kafka.",
    )
    available_now: bool = Field(default=False, description="Read all available records in several batches, then stop.")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.available_now and "interval" in self.model_fields_set:
            raise refused("`interval` has no effect with `available_now: true`; remove one of them", "interval")
        if not self.target_batch_duration:
            raise refused("expected a duration above zero, such as 10s", "target_batch_duration")
        return self


class SparkConfig(ConfigModel):
    """The Spark session: the master, and any Spark property under its own name (`spark.driver.memory: 2g`)."""

    model_config = {**ConfigModel.model_config, "extra": "allow"}
    __pydantic_extra__: dict[str, OptionText]

    master: Text | None = Field(
        default=None, description="Spark master URL; by default that of `spark-submit`, else `local[*]`."
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if key == "spark.master":
                raise refused("write it as `master`, without `spark.`: `spark: {master: ...}`", key)
            if key != "master" and not str(key).startswith("spark."):
                hints = ["master", "spark.driver.memory", "spark.executor.memory", "spark.executor.cores"]
                close = nearest(str(key), hints)
                wanted = f"did you mean '{close}'?" if close else "expected master or a Spark property (spark.*)"
                raise refused(f"unknown key '{key}'; {wanted}", str(key))
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        values = {"type": ["string", "number", "boolean"]}
        return {**schema, "patternProperties": {r"^spark\.": values}, "additionalProperties": False}

    def __repr_args__(self) -> Any:
        """Names only: values of properties may be secrets."""
        return [("master", self.master), ("properties", sorted(self.properties))]

    @property
    def properties(self) -> Mapping[str, str]:
        """All `spark.*` properties as given."""
        return dict(self.__pydantic_extra__ or {})


class Defaults(ConfigModel):
    """Values for every table rule that does not state its own."""

    new_columns: NewColumns = Field(
        default_factory=NewColumns, description="How many columns Tidemark adds to a table that lacks them."
    )
    schema_changes: SchemaChanges = Field(
        default_factory=SchemaChanges,
        description="How tables follow changes of the source's schema: a preset, or a word for each kind of change.",
        json_schema_extra={"default": "evolve"},
    )
    max_bad_records: MaxBadRecords | None = Field(
        default=NEARLY_ALL,
        json_schema_extra={"default": "nearly all"},
        description="How many bad records a table may have in one batch: a number (`100`) or a share of the "
        "table's records in the batch (`1%`). With more, the table fails (`on_table_failure`), and none of its "
        "records go into the table or the quarantine. With `nearly all`, a table fails if 90 % or more of its "
        "newest records are bad. At least 3 must be bad in a table without rows, 100 in others. null sets no "
        "limit.",
    )
    options: Mapping[str, OptionOrNull] = Field(
        default_factory=dict,
        description="Paimon table options under their Paimon names; by default `bucket` is 1 (-1 with `mode: append`). "
        "Options that need a primary key do not apply to tables without one.",
    )


class PipelineConfig(ConfigModel):
    """One pipeline: one source, one checkpoint, one Spark query, any number of Paimon tables."""

    version: Literal[1] = Field(description="Version of this file format: 1.")
    name: Text = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="Name of the pipeline, in logs and as the name of the Spark query.",
    )
    source: Source = Field(description="Where changes come from.")
    trigger: Trigger = Field(default_factory=Trigger, description="When micro-batches run.")
    checkpoint: Location = Field(
        description="Directory of Spark's checkpoint: a path relative to the YAML file, or a URI. Its id is the "
        "commit user of the tables. S3 (`s3a://`) needs hadoop-aws in `spark.jars.packages`. The directory must be "
        "outside the warehouse.",
    )
    on_lost_checkpoint: Literal["resume", "fail", "restart"] = Field(
        default="resume",
        description="What happens if the checkpoint is new, but the tables were written with another one. "
        "`resume` continues from the offsets in the tables, `fail` stops, `restart` reads from `start` again.",
    )
    retry: Retry = Field(default_factory=Retry, description="How long Tidemark retries a transient failure.")
    on_table_failure: OnTableFailure = Field(
        default="pause",
        description="What happens if a table refuses a schema change or a commit, or its storage fails. `pause` "
        "pauses the table at its position while all others continue; after `tidemark resume` or a restart it "
        "catches up. `stop` stops the pipeline. A failure that affects all tables always stops it.",
    )
    catalog: Catalog = Field(
        description="The catalog of the Paimon tables: where they are, and who publishes their snapshots."
    )
    metrics: Metrics | None = Field(
        default=None, description="Metrics for Prometheus, and health probes; off by default."
    )
    ui: WebPage | None = Field(default=None, description="A web page that shows what the process does; off by default.")
    spark: SparkConfig = Field(
        default_factory=lambda: SparkConfig.model_validate({}), description="Properties of the Spark session."
    )
    defaults: Defaults = Field(default_factory=Defaults, description="Defaults of the table rules.")
    tables: tuple[TableRule, ...] = Field(
        default=(), description="Table rules; the first that matches a source table applies."
    )
    otherwise: Otherwise = Field(
        default_factory=lambda: Otherwise.model_validate("skip"),
        description="Source tables that no rule matches: `skip` them, `fail`, or `create` a table "
        "(`{database}.{table}`, or `{create: {into: 'lake.{table}'}}`).",
        json_schema_extra={"default": "skip"},
    )

    @field_validator("version", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if isinstance(value, bool) or value not in (1, "1"):
            raise refused("unknown version; this Tidemark reads version 1")
        return 1

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.tables and self.otherwise.policy == "skip":
            raise refused("nothing would be written: add rules under `tables`, or `otherwise: create`")
        self._check_new_columns()
        self._check_schema_changes()
        self._check_new_tables()
        self._check_history()
        self._check_order()
        self._check_own_columns()
        if self.metrics and self.ui and self.metrics.port == self.ui.port:
            raise refused("`metrics` listens on the same port; choose another one for `ui`", "ui", "port")
        kafka = self.source.kafka
        if kafka is not None and kafka.reader == "spark" and "target_batch_duration" in self.trigger.model_fields_set:
            text = "it has no effect with `source.kafka.reader: spark`; remove it, and set `max_records_per_batch`"
            raise refused(text, "trigger", "target_batch_duration")
        return self

    def _check_new_columns(self) -> None:
        """Refuse a bound on new columns where no column is added."""
        places: list[tuple[NewColumns | None, SchemaChanges, tuple[str | int, ...]]] = [
            (self.defaults.new_columns, self.defaults.schema_changes.over(), ("defaults",))
        ]
        for index, rule in enumerate(self.tables):
            word = (rule.schema_changes or SchemaChanges()).over(self.defaults.schema_changes)
            places.append((rule.new_columns, word, ("tables", index)))
        for bound, words, place in places:
            if bound is not None and bound.model_fields_set and words.add != "apply":
                text = f"`new_columns` has no effect with `schema_changes: {{add: {words.add}}}`; remove one of them"
                raise refused(text, *place, "new_columns")

    def _check_schema_changes(self) -> None:
        """Refuse words for changes of the schema that the format or another word leaves without effect."""
        places: list[tuple[SchemaChanges, tuple[str | int, ...]]] = [(self.defaults.schema_changes, ("defaults",))]
        places += [(r.schema_changes, ("tables", i)) for i, r in enumerate(self.tables) if r.schema_changes is not None]
        for words, place in places:
            of_defaults = None if place == ("defaults",) else self.defaults.schema_changes
            effective, stated = words.over(of_defaults), words.words
            at = (*place, "schema_changes")
            for kind, word in BY_SCHEMA:
                if stated.get(kind) == word and not self.source.format.traits.has_schemas:
                    text = f"'{word}' needs schemas in the records, and those of {self.source.format.name} have none"
                    raise refused(f"{text}; remove the word", *at, kind)
            if stated.get("drop") == "drop" and not self.source.format.traits.tells_drops:
                text = f"records of {self.source.format.name} may omit NULL values, so no record shows a dropped column"
                raise refused(f"{text}; set keep_null, and drop the column with Paimon's ALTER TABLE", *at, "drop")
            if stated.get("rename") in ("apply", "pause") and effective.add in ("ignore", "quarantine"):
                text = (
                    f"with `add: {effective.add}` Tidemark sees no new column names; set `add: apply`, or remove "
                    "the word"
                )
                raise refused(text, *at, "rename")

    def _check_new_tables(self) -> None:
        """Refuse `primary_key: new_table` where no new table could continue, or would have only a part of the rows."""
        word = "`schema_changes: {primary_key: new_table}`"
        at: tuple[str | int, ...] = ("schema_changes", "primary_key")
        if self.source.files is not None and self.defaults.schema_changes.primary_key == "new_table":
            raise refused(_NO_OFFSETS, "defaults", *at)
        for index, rule in enumerate(self.tables):
            is_stated = rule.schema_changes is not None and rule.schema_changes.primary_key == "new_table"
            if is_stated and rule.mode == "append":
                text = f"{word} follows the key, and a table with `mode: append` has none; remove `primary_key` here"
                raise refused(text, "tables", index, *at)
            if is_stated and self.source.files is not None:
                raise refused(_NO_OFFSETS, "tables", index, *at)
            if rule.mode == "append" or self.target_rule(rule).schema_changes.primary_key != "new_table":
                continue
            problems = {
                "primary_key": "follows the message key, and this rule states the key",
                "merge_sources": "would follow only one of several source tables",
                "history": "would divide the history of a row between two tables",
            }
            for key, text in problems.items():
                if getattr(rule, key) is not None:
                    remedy = f"remove `{key}`, or set `schema_changes: {{primary_key: pause}}` in this rule"
                    raise refused(f"{word} {text}; {remedy}", "tables", index, key)

    def _check_history(self) -> None:
        """Refuse what cannot be right where deleted rows or all versions stay."""
        for index, rule in enumerate(self.tables):
            target = self.target_rule(rule)
            problem = history_problem(target)
            if problem is not None:
                raise refused(problem, "tables", index, "history")

    def _check_order(self) -> None:
        """Refuse what cannot be right where the place in the log of the source orders the rows."""
        for index, rule in enumerate(self.tables):
            if rule.order_by is None:
                continue
            at, target = ("tables", index, "order_by"), self.target_rule(rule)
            if not self.source.format.traits.tells_origins:
                text = (
                    f"records of the format {self.source.format.name} have no position in the log of a source. "
                    "Name a column with a version of the row: `options: {sequence.field: COLUMN}`"
                )
                raise refused(text, *at)
            stated = {n: v for n, v in {**self.defaults.options, **rule.options}.items() if v is not None}
            for _, text in order_problems(stated):
                raise refused(text, *at)
            if target.schema_changes.truncate == "apply":
                raise refused(
                    "`schema_changes: {truncate: apply}` does not work with this order; set skip or pause", *at
                )

    def _check_own_columns(self) -> None:
        """Refuse to fill a column that an option fills."""
        for index, rule in enumerate(self.tables):
            target = self.target_rule(rule)
            taken = taken_name(target)
            if taken is not None:
                place, text = taken
                raise refused(text, "tables", index, *place)
            ordering = ordering_own_column(target, target.options)
            if ordering is not None:
                at = ("tables", index) if SEQUENCE_FIELD in rule.options else ("defaults",)
                raise refused(ordering, *at, "options", SEQUENCE_FIELD)

    @property
    def quarantine(self) -> str:
        """Directory of the quarantined records."""
        return self.source.quarantine or f"{self.checkpoint}-quarantine"

    @property
    def decoder(self) -> Decoder:
        """Turns records into rows of the tables: the decoder of the format, then the rules for rows."""
        from sources.expressions.decoder import TransformingDecoder

        return TransformingDecoder(self.source.format.decoder, self._mask_keys())

    def _mask_keys(self) -> dict[str, bytes]:
        """The secret keys of masks by ``mask_key_name``."""
        return {
            mask_key_name(i, name): mask.key.encode()
            for i, rule in enumerate(self.tables)
            for name, mask in rule.columns.mask.items()
            if isinstance(mask, KeyedHash)
        }

    def rule_for(self, database: str | None, schema: str | None, table: str | None, topic: str) -> TargetRule | None:
        """The first rule that matches with the defaults applied, else the one of `otherwise: create`, else None.

        None means `otherwise.policy`: skip or fail.
        """
        number = self.number_of_rule(database, schema, table, topic)
        return self.created_rule() if number is None else self.target_rule(self.tables[number])

    def has_rule_for(self, database: str | None, schema: str | None, table: str | None, topic: str) -> bool:
        """Whether a rule of the file matches, and not only `otherwise`."""
        return self.number_of_rule(database, schema, table, topic) is not None

    def number_of_rule(self, database: str | None, schema: str | None, table: str | None, topic: str) -> int | None:
        """The place of the first rule that matches among `tables`; None if none does."""
        return next((i for i, rule in enumerate(self.tables) if rule.matches(database, schema, table, topic)), None)

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """The tables that rules name without placeholders, each once, in their order."""
        return tuple(dict.fromkeys(rule.into for rule in self.tables if rule.names_one_table))

    def target_rule(self, rule: TableRule) -> TargetRule:
        """A rule with its effective options."""
        target = TargetRule(
            rule.into,
            rule.primary_key,
            rule.partition_by,
            {name: t for name, t in rule.columns.named_types.items() if not rule.columns.leaves_out(name)},
            *self._rule_options(rule),
            rule.merge_sources,
            rule.before,
            rule.new_columns or self.defaults.new_columns,
            (rule.schema_changes or SchemaChanges()).over(self.defaults.schema_changes),
            None if rule.history is None or rule.history.soft_delete is None else rule.history.soft_delete.column,
            rule.order_by is not None,
            (rule.on_change or "fail") if rule.mode == "append" else None,
            rule.max_bad_records if "max_bad_records" in rule.model_fields_set else self.defaults.max_bad_records,
            rule.on_table_failure or self.on_table_failure,
            rule.backfill,
            rule.columns,
            rule.where,
            None if rule.history is None or rule.history.scd2 is None else rule.history.scd2.columns,
            rule.watermark,
            self._is_filtered(rule),
            # Plain records have no old rows, so their rows stay under their keys.
            rule.primary_key is not None and self.source.format.traits.tells_origins,
            next((i for i, other in enumerate(self.tables) if other is rule), -1),
        )
        return target if rule.tells_key else self._or_log(target, rule.options)

    def _rule_options(self, rule: TableRule) -> tuple[dict[str, str], frozenset[str]]:
        """The effective options, including those that follow from the order of a rule."""
        options, assumed = self._effective_options(rule.options, rule.mode or "upsert")
        ordering = options_of_order(rule.order_by, keeps_rows=rule.history is not None)
        if rule.mode != "append" and rule.order_by is None and rule.history is None and SEQUENCE_FIELD in options:
            ordering = options_of_leaving(options) if self._is_filtered(rule) else {}
        return {**options, **ordering}, assumed - frozenset(ordering)

    def _is_filtered(self, rule: TableRule) -> bool:
        return any(other.where is not None for other in self.tables if other.into == rule.into)

    def _or_log(self, target: TargetRule, of_rule: Mapping[str, str | None]) -> TargetRule:
        """A rule whose new tables are logs of events where the records have no key."""
        options, assumed = self._effective_options(of_rule, "append")
        stated = without_key_options({name: value for name, value in options.items() if name not in assumed})
        options = {**default_options("append"), **stated}
        log = replace(
            target,
            options=options,
            assumed_options=frozenset(options) - frozenset(stated),
            on_change="log",
            is_log_assumed=True,
        )
        return replace(target, without_keys=log)

    def name_of(self, rule: TableRule) -> str:
        """The name of a rule in messages: its table, and its match if other rules have the same table."""
        is_alone = sum(other.into == rule.into for other in self.tables) == 1
        return rule.into if is_alone else f"{rule.into} ({rule.match})"

    @property
    def target_rules(self) -> tuple[TargetRule, ...]:
        """All rules by which tables are made, in their order, `otherwise` last."""
        created = self.created_rule()
        return (*map(self.target_rule, self.tables), *(() if created is None else (created,)))

    def created_rule(self) -> TargetRule | None:
        """The rule for a table of `otherwise: create`; None under another policy."""
        create = self.otherwise.create
        if create is None:
            return None
        options = self._effective_options({}, "upsert")
        defaults = self.defaults
        target = TargetRule(
            create.into,
            None,
            (),
            {},
            *options,
            new_columns=defaults.new_columns,
            schema_changes=defaults.schema_changes.over(),
            max_bad_records=defaults.max_bad_records,
            on_table_failure=self.on_table_failure,
        )
        return self._or_log(target, {})

    def _effective_options(
        self, of_rule: Mapping[str, str | None], mode: Mode
    ) -> tuple[dict[str, str], frozenset[str]]:
        """The options of Tidemark, of the file's defaults and of the rule, in rising priority; null removes a default.

        Defaults that need a primary key do not apply to tables without one.

        Also returns the names of the options that only Tidemark's defaults set.
        """
        stated = {name: value for name, value in {**self.defaults.options, **of_rule}.items() if value is not None}
        if mode == "append":
            applied = without_key_options(stated)
            stated = {name: value for name, value in stated.items() if name in applied or name in of_rule}
        assumed = default_options(mode)
        return {**assumed, **stated}, frozenset(assumed) - frozenset(stated)
