"""Checks of a whole pipeline file that no single model can make: storage, table options, rules that never match."""

from __future__ import annotations

import functools
import glob
import logging
import os
from collections.abc import Callable, Iterator, Mapping

from paimon_table import validate_new_table
from paimon_table.errors import ConfigError
from paimon_table.options.names import KEEP_DELETES, SEQUENCE_FIELD
from pipelines.config.assumed_types import known_schema
from pipelines.config.config import PipelineConfig, default_options
from pipelines.config.config_errors import problem_at, problem_lines
from pipelines.config.error_budget import Budget
from pipelines.config.expression_checks import expression_problems
from pipelines.config.kafka_checks import property_mistakes, property_warnings, server_mistakes
from pipelines.config.kept_options import misspelt_options, options_for_others
from pipelines.config.kept_values import unreadable_values
from pipelines.config.option_columns import expressions_in_keys, lacking_columns, misspelt_columns, misspelt_keys
from pipelines.config.options_replaced import options_replaced
from pipelines.config.options_without_effect import (
    durations_without_unit,
    functions_of_tidemark_alone,
    options_of_other_tables,
    options_that_wait,
    options_without_effect,
    values_out_of_range,
)
from pipelines.config.shared_tables import sources_that_meet
from pipelines.config.source_config import StartTimestamp
from pipelines.config.spark_properties import master_problem, misspelt_properties, unknown_properties
from pipelines.config.storage_checks import place_warnings, storage_problems
from pipelines.config.table_match import PLACEHOLDER, PLACEHOLDERS
from pipelines.config.table_name import alike_text, folded
from pipelines.config.table_rules import TargetRule
from pipelines.config.yaml_file import KeyPath, Problem, YamlFile
from sources.topics import names_in

log = logging.getLogger(__name__)


def check_config(config: PipelineConfig, file: YamlFile, file_name: str) -> list[Problem]:
    """All problems that the checks of this module find. A setting that may be intended is a warning in the log."""
    warnings = [
        *place_warnings(config, file),
        *_alike_names(config, file),
        *_option_warnings(config, file),
        *_of_keys(config, file, misspelt_keys),
        *_spark_warnings(config, file),
        *_source_warnings(config, file),
        *_start_warnings(config, file),
        *_kafka_problems(config, file, property_warnings),
    ]
    for problem in sorted(set(warnings)):
        warn_once("%s", problem_lines(file_name, [problem], "warning: "))
    return [
        *storage_problems(config, file),
        *_spark_problems(config, file),
        *_server_problems(config, file),
        *_unreachable_rules(config, file),
        *_differing_modes(config, file),
        *_meeting_sources(config, file),
        *_option_problems(config, file),
        *_budgets_without_effect(config, file),
        *_paths_without_effect(config, file),
        *_undeclared_keys(config, file),
        *_topics_without_names(config, file),
        *_of_keys(config, file, expressions_in_keys),
        *expression_problems(config, file),
        *_kafka_problems(config, file, property_mistakes),
    ]


_EPOCH_YEAR = 1970


def _spark_problems(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    wrong = master_problem(config.spark.master)
    if wrong is not None:
        yield problem_at(file, ("spark", "master"), wrong)
    for name, text in misspelt_properties(config.spark.properties):
        yield problem_at(file, ("spark", name), text, said_of=("spark",))


def _spark_warnings(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    for name, text in unknown_properties(config.spark.properties):
        yield problem_at(file, ("spark", name), text, said_of=("spark",))


def _source_warnings(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Missing files, because the check may run on another machine; keys that no record and no rule has."""
    yield from _missing_schemas(config, file)
    yield from _assumed_logs(config, file)
    source = config.source.files
    if source is None or os.path.isdir(source.path.removeprefix("file://")):
        return
    if not glob.glob(source.path.removeprefix("file://"), recursive=True):
        yield problem_at(
            file, ("source", "files", "path"), "no file matches; a run with a new checkpoint would refuse this"
        )


def _missing_schemas(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    schemas = config.source.format.schema_files
    if schemas is not None and not os.path.exists(schemas.removeprefix("file://")):
        path = ("source", "format", config.source.format.name, "registry", "file")
        yield problem_at(file, path, "the file or directory does not exist; a run would fail at its first record")


def _assumed_logs(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Rules that leave the key to records which never name one."""
    if config.source.format.traits.names_keys:
        return
    for i, rule in enumerate(config.tables):
        if not rule.tells_key:
            text = (
                f"records of {config.source.format.name} name no primary key, so {rule.into} becomes a log of "
                "events. Set primary_key for a table that follows its source, or `mode: append` with `on_change: log`"
            )
            yield problem_at(file, ("tables", i, "into"), text)


def _undeclared_keys(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Rules for tables with a key that nothing names."""
    form = config.source.format
    if form.traits.names_keys and form.traits.tells_origins:
        return
    for i, rule in enumerate(config.tables):
        if rule.primary_key is None and (needs := rule.needs_key) is not None:
            text = f"{needs} needs a primary key, and records of {form.name} name none; set primary_key in this rule"
            yield problem_at(file, ("tables", i, "mode" if rule.mode == "upsert" else "into"), text)


def _start_warnings(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Moments in the first year of the epoch, which are seconds where milliseconds are meant."""
    start = None if config.source.kafka is None else config.source.kafka.start
    if isinstance(start, StartTimestamp) and start.timestamp.year <= _EPOCH_YEAR:
        moment = start.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"numbers are milliseconds since 1970, and this one is {moment}; if you mean seconds, append 000"
        yield problem_at(file, ("source", "kafka", "start", "timestamp"), text)


def _kafka_problems(
    config: PipelineConfig, file: YamlFile, check: Callable[[Mapping[str, str]], Iterator[tuple[str, str]]]
) -> Iterator[Problem]:
    """The problems that ``check`` finds in the properties of Kafka's client."""
    options = {} if config.source.kafka is None else config.source.kafka.options
    path = ("source", "kafka", "options")
    for name, text in check(options):
        yield problem_at(file, (*path, name), text, said_of=path)


def _server_problems(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    servers = "" if config.source.kafka is None else config.source.kafka.bootstrap_servers
    for text in server_mistakes(servers) if servers else ():
        yield problem_at(file, ("source", "kafka", "bootstrap_servers"), text)


def _unreachable_rules(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Rules that never apply, because an earlier rule takes all their source tables."""
    for i, rule in enumerate(config.tables):
        for j, earlier in enumerate(config.tables[:i]):
            if earlier.match.covers(rule.match):
                line = file.place(("tables", j)).line
                text = (
                    f"never used: the rule in line {line} takes everything that it matches; remove it, or move a "
                    "narrower rule above a wider one. A source table goes into one table: write a second file for "
                    "another"
                )
                yield problem_at(file, ("tables", i, "match"), text)
                break


def _differing_modes(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Rules that write a table in another way than an earlier rule, as far as the file shows."""
    for i, rule in enumerate(config.tables):
        for j, earlier in enumerate(config.tables[:i]):
            if rule.into != earlier.into or not rule.names_one_table:
                continue
            mine, its = config.target_rule(rule), config.target_rule(earlier)
            if mine.without_keys or its.without_keys:
                continue  # only their records show it
            if not mine.writes_like(its):
                line = file.place(("tables", j, "into"), of_key=True).line
                text = (
                    f"{rule.into} is written by the rule in line {line} too, with another `mode` or `on_change`. "
                    "Use the same settings in both, or give each a separate table"
                )
                yield problem_at(file, ("tables", i, "into"), text)
                break


def _alike_names(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Names of tables that are one directory where the storage ignores case or forms of characters."""
    seen: dict[str, int] = {}
    for i, rule in enumerate(config.tables):
        first = seen.setdefault(folded(rule.into), i)
        other = config.tables[first].into
        if other != rule.into:
            text = f"{alike_text(rule.into, other)} (that of line {file.place(('tables', first)).line})"
            yield problem_at(file, ("tables", i, "into"), text)


def _meeting_sources(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Rules that certainly merge several source tables into one table without declaring that this is allowed."""
    for i, text in sources_that_meet(config).items():
        if isinstance(text, int):
            text = f"the rule in line {file.place(('tables', text)).line} writes other source tables into it"
        yield problem_at(
            file,
            ("tables", i, "into"),
            f"{config.tables[i].into}: {text}, and rows with the same key would overwrite each other. Set"
            " `merge_sources: same_rows` if they hold the same rows, `merge_sources: disjoint_keys` if a key column"
            " distinguishes them, or use placeholders such as {database}",
        )


def _budgets_without_effect(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    if config.source.on_bad_record != "fail":
        return
    stated = config.defaults.max_bad_records if "max_bad_records" in config.defaults.model_fields_set else None
    holders: list[tuple[KeyPath, Budget | None]] = [(("defaults",), stated)]
    holders += [(("tables", i), rule.max_bad_records) for i, rule in enumerate(config.tables)]
    for path, budget in holders:
        if budget is not None:
            text = "has no effect with `on_bad_record: fail`, which stops at the first bad record; remove one of them"
            yield problem_at(file, (*path, "max_bad_records"), text)


def _paths_without_effect(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    form = config.source.format
    if form.traits.reads_paths:
        return
    able = " or ".join(name for name, known in form.formats.items() if known.reads_paths)
    for i, rule in enumerate(config.tables):
        if rule.columns.paths:
            text = f"format {form.name} reads no nested fields by path; remove it, or use format {able}"
            yield problem_at(file, ("tables", i, "columns", "paths"), text)


def _topics_without_names(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Targets with a name that neither the records nor a listed topic have, each with the first such topic."""
    form, told, created = config.source.format, set[str](), config.otherwise.create
    for topic in () if form.traits.tells_origins else config.source.reader.topics.names:
        names = *names_in(topic), topic
        number = config.number_of_rule(*names)
        rule = created if number is None else config.tables[number]
        used = () if rule is None else PLACEHOLDER.findall(rule.into)
        lacks = [name for name, value in zip(PLACEHOLDERS, names, strict=True) if value is None and name in used]
        if rule is None or not lacks or rule.into in told:
            continue
        told.add(rule.into)
        text = (
            f"'{rule.into}' uses {{{lacks[0]}}}, but records of {form.name} do not name it, and topic '{topic}' has "
            "too few parts. Write"
        )
        if number is None:
            example = "{ create: { into: 'lake.{topic}' } }"
            yield problem_at(file, ("otherwise",), f"{text} `otherwise: {example}`, for example")
        else:
            yield problem_at(file, ("tables", number, "into"), f"{text} the name, or use {{topic}}")


@functools.cache
def warn_once(text: str, *details: object) -> None:
    """Files are checked again when they are run."""
    log.warning(text, *details)


def _rules(config: PipelineConfig) -> list[tuple[KeyPath, TargetRule]]:
    """All rules with their effective options, and where the file states these."""
    rules: list[tuple[KeyPath, TargetRule]] = [
        (("tables", i, "options"), config.target_rule(rule)) for i, rule in enumerate(config.tables)
    ]
    created = config.created_rule()
    if created is not None:
        rules.append((("otherwise",), created))
    return rules


_KEYS_OF_THE_RULE = {
    **dict.fromkeys(("primary-key", "primary-keys", "primary_key", "primary_keys"), "primary_key"),
    **dict.fromkeys(("partition", "partition-keys", "partition.keys", "partition_by", "partition-by"), "partition_by"),
}
"""Options of a table that other engines and tools write."""


def _option_problems(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """Options that no table can have, each at its place in the file: in the rule, or in the defaults."""
    seen: set[Problem] = set()
    for path, rule in _rules(config):
        stated = [name for name in rule.options if (*path, name) in file.places]
        mistakes = [
            *option_mistakes(rule),
            *values_out_of_range(rule.options),
            *durations_without_unit(rule.options),
            *unreadable_values(rule.options),
            *lacking_columns(rule),
            *options_without_effect(stated, rule.options),
            *options_of_other_tables(stated, rule.options, rule.on_change is None, _can_move(rule)),
            *options_replaced(stated, rule.options, rule.on_change is None, bool(rule.partition_by)),
            *misspelt_options([n for n in rule.options if n != KEEP_DELETES or SEQUENCE_FIELD not in rule.options]),
        ]
        for name, text in mistakes:
            if name in _KEYS_OF_THE_RULE:
                key = _KEYS_OF_THE_RULE[name]
                text = f"'{name}' is not an option here; write `{key}: [COLUMN, ...]` in the table rule"
            problem = _problem_of_option(file, path, name, text)
            if problem not in seen:
                seen.add(problem)
                yield problem


def _can_move(rule: TargetRule) -> bool:
    """Whether the primary key may lack a partition column; the primary key in messages is not known here."""
    return bool(rule.partition_by) and not set(rule.partition_by) <= set(rule.primary_key or ())


def _option_warnings(config: PipelineConfig, file: YamlFile) -> list[Problem]:
    return [
        _problem_of_option(file, path, name, text)
        for path, rule in _rules(config)
        for name, text in (
            *options_that_wait(rule.options),
            *options_for_others(rule.options),
            *functions_of_tidemark_alone(rule.options),
            *misspelt_columns(rule),
        )
    ]


def _of_keys(
    config: PipelineConfig, file: YamlFile, found: Callable[[TargetRule], Iterator[tuple[str, str]]]
) -> list[Problem]:
    return [
        problem_at(file, ("tables", i, key), text)
        for i, rule in enumerate(config.tables)
        for key, text in found(config.target_rule(rule))
    ]


def _problem_of_option(file: YamlFile, path: KeyPath, name: str, text: str) -> Problem:
    """The place of the option in the rule, or else in the defaults; without a name, the place of the rule's options."""
    own, default = (*path, name), ("defaults", "options", name)
    at = own if own in file.places else default if default in file.places else path
    return problem_at(file, at, text, said_of=at[:-1] if name else at)


def option_mistakes(rule: TargetRule) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for every option that the table engine refuses.

    The engine stops at the first mistake. So the wrong option is set aside, and the rest is tried again.
    """
    options = dict(rule.options)
    assumed = default_options("upsert" if rule.on_change is None else "append")
    while True:
        try:
            validate_new_table(known_schema(rule, options))
            return
        except ConfigError as error:
            name = error.option
            if name not in options or options[name] == assumed.get(name):
                yield "", str(error)
                return
            yield name, str(error)
            del options[name]
            options = {**assumed, **options}
