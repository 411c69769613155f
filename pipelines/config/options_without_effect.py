"""Table options that have no effect in a pipeline file, because other options make them useless.

Paimon keeps such options silently, so tables that have them are opened and written. In a pipeline file such an option
does not do what its author expects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from paimon_table import TableOptions, TableSchema
from paimon_table.errors import ConfigError
from paimon_table.formats.known_formats import KNOWN_FORMATS
from paimon_table.option_declaration import Declaration, Need, declared_in
from paimon_table.option_values import duration_ms, is_per_level
from paimon_table.options.field_options import (
    AGGREGATING,
    declared_setting,
    field_option,
    is_field_option,
    named_columns,
)
from paimon_table.options.file_settings import used_settings
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    BUCKET,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_PRODUCER,
    CLUSTERING_COLUMNS,
    CLUSTERING_STRATEGY,
    DEFAULT_AGGREGATE_FUNCTION,
    FILE_BLOCK_SIZE,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    INDEX_BOOTSTRAP_PARALLELISM,
    INDEX_TTL,
    INITIAL_BUCKETS,
    MAX_BUCKETS,
    MERGE_ENGINE,
    NUM_LEVELS,
    WRITE_ONLY,
)
from paimon_table.options.option_facts import TYPED_OPTIONS, declaration
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.table_options import MERGE_ENGINES

_OF_MOVES = (INDEX_TTL, INDEX_BOOTSTRAP_PARALLELISM)
_FORMATS = (FILE_FORMAT, FILE_FORMAT_PER_LEVEL, CHANGELOG_FILE_FORMAT)


def options_without_effect(stated: Collection[str], effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for options that nothing reads; skips options with unreadable values."""
    for declared in TYPED_OPTIONS:
        name = declared.stated_as(stated)
        if name is not None and declared.needs is not None:
            yield from _without_needed(name, declared.needs, effective)
        if name is not None and is_per_level(declared.parse):
            yield from _of_levels_too_high(name, effective)
    if FILE_BLOCK_SIZE in stated:
        yield from _of_formats_without_blocks(FILE_BLOCK_SIZE, effective)
    for name in stated:
        if is_field_option(name):
            yield from _of_column(name, effective)


def options_of_other_tables(
    stated: Collection[str], effective: Mapping[str, str], has_key: bool, can_move: bool
) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for options without effect in tables of this kind.

    ``can_move``: the primary key may lack a partition column, so that rows move between partitions.
    """
    for declared in TYPED_OPTIONS:
        name = declared.stated_as(stated)
        if name is None:
            continue
        if declared.with_key is not None and declared.with_key is not has_key:
            other = "a primary key (`mode: upsert`)" if declared.with_key else "no primary key (`mode: append`)"
            yield name, f"option '{name}' has an effect on tables with {other} only; remove it"
        elif name in _OF_MOVES and not can_move:
            yield (
                name,
                f"option '{name}' has an effect only if rows move between partitions: if a column of "
                "`partition_by` is not part of the primary key; remove it",
            )
    yield from _of_buckets_beyond(stated, effective)
    yield from _of_curves(stated, effective)


def _of_buckets_beyond(stated: Collection[str], effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    options = parsed(effective, (INITIAL_BUCKETS, MAX_BUCKETS))
    if options is None or INITIAL_BUCKETS not in stated:
        return
    initial, most = options.dynamic_bucket_initial_buckets or 0, options.dynamic_bucket_max_buckets
    if 0 < most < initial:
        yield (
            INITIAL_BUCKETS,
            f"option '{INITIAL_BUCKETS}' = {initial} is more than {MAX_BUCKETS} = {most} allows; lower it",
        )


def _of_curves(stated: Collection[str], effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    strategy, columns = _declared(CLUSTERING_STRATEGY), _declared(CLUSTERING_COLUMNS)
    options = parsed(effective, (BUCKET, *columns.names, *strategy.names))
    name = strategy.stated_as(stated) or columns.stated_as(stated)
    if name is None or options is None or not options.clustering_columns:
        return
    if not options.clusters_in_order:
        yield (
            name,
            f"option '{name}': Tidemark sorts rows by the columns in their order, not along a curve; write"
            f" {CLUSTERING_STRATEGY}: order",
        )


def _without_needed(name: str, need: Need, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    value = _text(need.option, effective)
    if value is None or (need.values and value.lower() not in need.values):
        wanted = f"{need.option} = {' or '.join(need.values)}" if need.values else f"the option {need.option}"
        yield name, f"option '{name}' has no effect without {wanted}; remove it or add that"


def _text(name: str, effective: Mapping[str, str]) -> str | None:
    """The value of an option as a text, or its default if the option is not stated; None for no value."""
    declared = declaration(name)
    default = None if declared is None else declared.default
    stated = name if declared is None else declared.stated_as(effective)
    return effective.get(stated or name, str(default) if isinstance(default, str | int) else None)


def _of_column(name: str, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``fields.<column>.<setting>`` under an engine or a function that does not look at it."""
    declared = declared_setting(name)
    engine = (_text(MERGE_ENGINE, effective) or "").lower()
    if declared is None or declared.needs is None or engine not in MERGE_ENGINES:
        return
    if engine not in declared.needs.values:
        yield from _without_needed(name, declared.needs, effective)
        return
    # The functions load Arrow: only import them for tables that have some.
    from paimon_table.merge.aggregate.registry import FUNCTION_NAMES, functions_with
    from paimon_table.merge.aggregation import DEFAULT_FUNCTION

    functions = functions_with(declared.name)
    own = field_option(named_columns(name), AGGREGATE_FUNCTION)
    function = effective.get(own, effective.get(DEFAULT_AGGREGATE_FUNCTION))
    function = function or (DEFAULT_FUNCTION if engine == "aggregation" else None)
    if functions and function not in functions and (function is None or function in FUNCTION_NAMES):
        wanted = "" if functions == FUNCTION_NAMES else f" = {' or '.join(functions)}"
        yield name, f"option '{name}' has no effect without {own}{wanted}; remove it or add that"


def _of_levels_too_high(name: str, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    options = parsed(effective, (*_declared(NUM_LEVELS).deciding_names, name))
    if options is None:
        return
    beyond = {level for level in options.named_levels if level > options.max_level}
    if beyond:
        yield (
            name,
            f"option '{name}' has no effect on level {min(beyond)}: levels are 0 to {options.max_level}; remove that "
            "level or raise num-levels",
        )


def _of_formats_without_blocks(name: str, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    options = parsed(effective, (CHANGELOG_PRODUCER, *_FORMATS, *_declared(NUM_LEVELS).deciding_names))
    formats = set() if options is None else {settings.format for settings in used_settings(options)}
    if formats and all(known in KNOWN_FORMATS and not KNOWN_FORMATS[known].has_blocks for known in formats):
        yield name, f"option '{name}' has no effect on files of format {', '.join(sorted(formats))}; remove it"


def options_that_wait(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, note) if a separate compaction job must do what ``write-only`` keeps Tidemark from doing."""
    write_only = _declared(WRITE_ONLY).stated_as(effective)
    if write_only is None or effective[write_only].lower() != "true":
        return
    for declared in TYPED_OPTIONS:
        name, values = declared.stated_as(effective), declared.waits_for_compaction
        if name is not None and values is not None and (not values or effective[name].lower() in values):
            yield (
                write_only,
                f"option '{write_only}' = true keeps Tidemark from compacting, which {name} = {effective[name]} waits "
                "for: run a dedicated compaction job, or remove one of them",
            )


def functions_of_tidemark_alone(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, note) if the table gets a function because of which Java cannot open it."""
    if (_text(MERGE_ENGINE, effective) or "").lower() not in AGGREGATING:
        return
    for name, function in effective.items():
        declared = declared_setting(name) if is_field_option(name) else declaration(name)
        if declared is None or declared.name not in (AGGREGATE_FUNCTION, DEFAULT_AGGREGATE_FUNCTION):
            continue
        if function == "count":
            yield (
                name,
                f"option '{name}' = count: Java Paimon 1.4.2 does not have this function and cannot open the table. If"
                " Java reads it, use sum over a column of ones instead",
            )


def values_out_of_range(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for numbers that Paimon accepts although they make no sense."""
    for field, declared in declared_in(TableOptions).items():
        meant, names = declared.meant, declared.deciding_names
        name = next((name for name in names if name in effective), None)
        options = None if meant is None or name is None else parsed(effective, names)
        if meant is None or name is None or options is None:
            continue
        value = getattr(options, field)
        if value not in meant.values:
            yield name, f"option '{name}': {value} {meant.otherwise}"


_SHOWN = 20


def durations_without_unit(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for durations without a unit.

    Paimon takes them for milliseconds: `record-level.expire-time: 30` would remove all rows at once.
    """
    for name, text in effective.items():
        known, bare = declaration(name), text.strip()[:_SHOWN]
        if known is not None and known.parse is duration_ms and bare.isascii() and bare.isdecimal() and bare.strip("0"):
            yield (
                name,
                f"option '{name}': '{bare}' has no unit, which Paimon takes for milliseconds; write {bare} d, {bare} h,"
                f" {bare} s or {bare} ms",
            )


def _declared(name: str) -> Declaration:
    declared = declaration(name)
    assert declared is not None
    return declared


def parsed(effective: Mapping[str, str], names: Collection[str]) -> TableOptions | None:
    """The typed values of some options without column names; None if one cannot be read (reported elsewhere)."""
    chosen = {name: effective[name] for name in names if name in effective}
    try:
        return parse_options(chosen, TableSchema(0, (), -1, (), (), chosen))
    except ConfigError:
        return None
