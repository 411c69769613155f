"""Table options that a pipeline file states in vain: other options leave nobody who looks at them, or no use for them.

Paimon keeps such options in silence, so tables that have them are opened and written; a pipeline file that states them
does not say what its author means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.registry import FUNCTION_NAMES
from paimon_table.merge.aggregation import DEFAULT_FUNCTION
from paimon_table.options.field_options import FIELD_OPTIONS, is_field_option
from paimon_table.options.table_options import MERGE_ENGINES, TableOptions, parse_options
from paimon_table.schema.table_schema import TableSchema

_DEFAULT_FUNCTION_OPTION = "fields.default-aggregate-function"
_AGGREGATING = ("aggregation", "partial-update")
_NEEDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("sequence.field.sort-order", "sequence.field", ()),
    ("changelog-producer.row-deduplicate", "changelog-producer", ("lookup", "full-compaction")),
    ("changelog-producer.row-deduplicate-ignore-fields", "changelog-producer.row-deduplicate", ("true",)),
    ("lookup-compact.max-interval", "lookup-compact", ("gentle",)),
    ("deletion-vectors.bitmap64", "deletion-vectors.enabled", ("true",)),
    ("deletion-vectors.merge-on-read", "deletion-vectors.enabled", ("true",)),
    ("aggregation.remove-record-on-delete", "merge-engine", ("aggregation",)),
    ("partial-update.remove-record-on-delete", "merge-engine", ("partial-update",)),
    ("partial-update.remove-record-on-sequence-group", "merge-engine", ("partial-update",)),
    (_DEFAULT_FUNCTION_OPTION, "merge-engine", _AGGREGATING),
)
"""(option, option that it needs, values of that one; none stands for any)."""

_NESTED = ("nested_update", "nested_partial_update")
_FUNCTIONS_WITH: Mapping[str, tuple[str, ...]] = {
    "list-agg-delimiter": ("listagg",),
    "distinct": ("listagg", "collect"),
    "nested-key": _NESTED,
    "nested-key-null-strategy": _NESTED,
    "nested-sequence-field": ("nested_update",),
    "count-limit": ("nested_update",),
    "ts-field": ("merge_map_with_keytime",),
}
"""The functions that look at a setting of aggregate functions."""

_LEVELS = ("num-levels", "num-sorted-run.compaction-trigger")
_PER_LEVEL = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level")


def options_without_effect(stated: Collection[str], effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, what is wrong) for the stated options that nothing would look at; unreadable ones are passed over."""
    for name, needed, values in _NEEDS:
        if name in stated:
            yield from _without_needed(name, needed, values, effective)
    for name in stated:
        if is_field_option(name) and name != _DEFAULT_FUNCTION_OPTION:
            yield from _of_column(name, effective)
    for name in _PER_LEVEL:
        if name in stated:
            yield from _of_levels_too_high(name, effective)


def _without_needed(
    name: str, needed: str, values: tuple[str, ...], effective: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    value = effective.get(needed)
    if value is None or (values and value.lower() not in values):
        wanted = f"{needed} = {' or '.join(values)}" if values else f"the option {needed}"
        yield name, f"option '{name}' has no effect without {wanted}; remove it or add that"


def _of_column(name: str, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``fields.<column>.<setting>`` under an engine or a function that does not look at it."""
    _, column, setting = (*name.split(".", 2), "", "")[:3]
    engine = effective.get("merge-engine", "deduplicate").lower()
    if engine not in MERGE_ENGINES or setting == "stats-mode" or setting not in FIELD_OPTIONS:
        return
    engines = ("partial-update",) if setting == "sequence-group" else _AGGREGATING
    if engine not in engines:
        yield from _without_needed(name, "merge-engine", engines, effective)
        return
    functions = _FUNCTIONS_WITH.get(setting, FUNCTION_NAMES if setting == "ignore-retract" else ())
    given = effective.get(f"fields.{column}.aggregate-function", effective.get(_DEFAULT_FUNCTION_OPTION))
    function = given or (DEFAULT_FUNCTION if engine == "aggregation" else None)
    if functions and function not in functions and (function is None or function in FUNCTION_NAMES):
        wanted = "" if functions == FUNCTION_NAMES else f" = {' or '.join(functions)}"
        yield (
            name,
            f"option '{name}' has no effect without fields.{column}.aggregate-function{wanted}; remove it or add that",
        )


def _of_levels_too_high(name: str, effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    options = _parsed(effective, (*_LEVELS, name))
    if options is None:
        return
    beyond = {level for level in options.named_levels if level > options.max_level}
    if beyond:
        yield (
            name,
            f"option '{name}' has no effect on level {min(beyond)}: levels are 0 to {options.max_level}; remove that "
            "level or raise num-levels",
        )


_WRITE_ONLY = ("write-only", "write.compaction-skip")
_COMPACTION = (
    ("changelog-producer", ("lookup", "full-compaction")),
    ("merge-engine", ("first-row",)),
    ("deletion-vectors.enabled", ("true",)),
    ("full-compaction.delta-commits", ()),
)
"""(option, values with which only compaction completes what a batch writes; none stands for any)."""


def options_that_wait(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, what to know) where a dedicated compaction job must do what ``write-only`` keeps Tidemark from."""
    write_only = next((name for name in _WRITE_ONLY if name in effective), "")
    if effective.get(write_only, "").lower() != "true":
        return
    for name, values in _COMPACTION:
        value = effective.get(name)
        if value is not None and (not values or value.lower() in values):
            yield (
                write_only,
                f"option '{write_only}' = true keeps Tidemark from compacting, which {name} = {value} waits for: run a "
                "dedicated compaction job, or remove one of them",
            )


MOST_LEVELS = 1000
"""More than any table has runs; a writer keeps a list of them for each bucket."""
_ZSTD_LEVELS = range(1, 23)


def values_out_of_range(effective: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, what is wrong) for numbers that Paimon accepts, although nobody can mean them."""
    levels = _parsed(effective, _LEVELS)
    if levels is not None and levels.num_levels > MOST_LEVELS:
        name = next(option for option in _LEVELS if option in effective)
        yield (
            name,
            f"option '{name}': {levels.num_levels} levels are too many for every bucket to hold; set num-levels to at "
            f"most {MOST_LEVELS}",
        )
    name = "file.compression.zstd-level"
    compression = _parsed(effective, (name,))
    if compression is not None and name in effective and compression.zstd_level not in _ZSTD_LEVELS:
        yield (
            name,
            f"option '{name}': {compression.zstd_level} is not among the levels of zstd; write one from "
            f"{_ZSTD_LEVELS[0]} to {_ZSTD_LEVELS[-1]}",
        )


def _parsed(effective: Mapping[str, str], names: Collection[str]) -> TableOptions | None:
    """The typed values of some options that name no columns; None when one cannot be read, which is said elsewhere."""
    chosen = {name: effective[name] for name in names if name in effective}
    try:
        return parse_options(chosen, TableSchema(0, (), -1, (), (), chosen))
    except ConfigError:
        return None
