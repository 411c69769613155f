"""Names in a pipeline file that the source does not have: rules without a source table, patterns without a column.

Such a name is usually a mistake without visible effect: a table is missing, or a column appears that was to be dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from paimon_table.nearest_name import nearest
from pipelines.config.column_rules import ColumnRules, first_of, pattern_of
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TableRule
from sources.changes import SourceTable
from sources.topics import any_matches, name_matches
from sources.wording import first_of as first_names
from sources.wording import lack_of_name

_SHOWN = 10


def unmatched(
    config: PipelineConfig, sources: Mapping[SourceTable, Collection[str] | None], topics: Collection[str]
) -> Iterator[str]:
    """A sentence for each name or pattern without effect; empty if the source has shown nothing.

    ``sources`` are the known source tables with all their columns, None if these are unknown. A topic of ``topics``
    without a known source table stands for one of its name: it may be empty, or have only bad records.
    """
    told = {source.topic for source in sources}
    known = {**dict.fromkeys(SourceTable.of_topic(topic) for topic in topics if topic not in told), **sources}
    if not known:
        return
    yield from _topics(config, {*topics, *told})
    for rule, taken in _taken(config, known):
        yield from (f"{_place(config, rule)}: {text}" for text in _of_match(rule, taken, known))
        yield from _columns_of_rule(config, rule, taken, known)


def unmatched_columns(config: PipelineConfig, sources: Mapping[SourceTable, Collection[str] | None]) -> Iterator[str]:
    """A sentence for each column of a rule that none of its source tables has; ``sources`` as for ``unmatched``."""
    for rule, taken in _taken(config, sources):
        yield from _columns_of_rule(config, rule, taken, sources)


def _columns_of_rule(
    config: PipelineConfig,
    rule: TableRule,
    taken: Collection[SourceTable],
    sources: Mapping[SourceTable, Collection[str] | None],
) -> Iterator[str]:
    columns = [sources[source] for source in taken]
    names = {name for some in columns if some is not None for name in some}
    if names and None not in columns:
        of = ", ".join(first_names([source.topic for source in taken], 3))
        yield from (f"{_place(config, rule)}: columns.{text}" for text in _of_columns(rule.columns, names, of))


def _place(config: PipelineConfig, rule: TableRule) -> str:
    return f"rule into {config.name_of(rule)}"


def _taken(config: PipelineConfig, sources: Iterable[SourceTable]) -> list[tuple[TableRule, list[SourceTable]]]:
    """Each rule with the source tables that it takes."""
    taken: defaultdict[int, list[SourceTable]] = defaultdict(list)
    for source in sources:
        number = config.number_of_rule(source.database, source.schema, source.table, source.topic)
        if number is not None:
            taken[number].append(source)
    return [(rule, taken[number]) for number, rule in enumerate(config.tables)]


def _takes(rule: TableRule, source: SourceTable) -> bool:
    return rule.matches(source.database, source.schema, source.table, source.topic)


def _topics(config: PipelineConfig, topics: Collection[str]) -> Iterator[str]:
    where, selection = "kafka" if config.source.kafka is not None else "files", config.source.reader.topics
    for name in selection.names:
        if name not in topics:
            yield f"source.{where}.topics: '{name}' is no topic with records: {_remedy(name, topics)}"
    for pattern in selection.include:
        if not any(name_matches(pattern, topic) for topic in topics):
            remedy = _remedy(pattern, topics)
            yield f"source.{where}.topics.include: '{pattern}' matches no topic with records: {remedy}"


def _of_match(rule: TableRule, taken: Collection[SourceTable], known: Collection[SourceTable]) -> Iterator[str]:
    match = rule.match
    if not taken:
        if any(_takes(rule, source) for source in known):
            yield "earlier rules match all its source tables: move it up, or remove it"
            return
        given = {key: patterns for key, patterns in match.by_name.items() if patterns is not None}
        there = {key: {name for one in known if (name := getattr(one, key)) is not None} for key in given}
        wrong = [key for key in given if not any(any_matches(given[key], name) for name in there[key])]
        key = next((key for key in ("table", "topic", "schema", "database") if key in (wrong or given)), "topic")
        remedy, of_any = _remedy(" ".join(given[key]), there[key]), match.model_copy(update={"database": None})
        for one in known:
            if match.database and not one.database and of_any.matches(None, one.schema, one.table, one.topic):
                remedy = lack_of_name("database", one.topic, one.database, one.schema, "`match.{}`")
        yield f"no source table matches it ({match}): {remedy}"
        return
    for key, patterns in match.by_name.items():
        names = {name for source in taken if (name := getattr(source, key)) is not None}
        all_names = {name for source in known if (name := getattr(source, key)) is not None}
        for pattern in patterns or ():
            if not any(name_matches(pattern, name) for name in names):
                yield f"match.{key}: '{pattern}' matches no source table: {_remedy(pattern, all_names)}"
    tables = {source.table for source in known}
    for pattern in match.exclude or ():
        if not any(name_matches(pattern, name) for name in tables):
            yield f"match.exclude: '{pattern}' matches no source table: {_remedy(pattern, tables)}"


def _of_columns(rules: ColumnRules, columns: Collection[str], of: str) -> Iterator[str]:
    """The columns of the source under their own names, and under their names in the table."""
    stored = {*columns, *rules.rename.values(), *rules.add, *rules.paths}
    keys: list[tuple[str, Iterable[str], Collection[str]]] = [
        ("rename", rules.rename, columns),
        ("replace", rules.replace, columns),
        ("mask", rules.mask, columns),
        ("keep", rules.keep, columns),
        ("drop", rules.drop, columns),
        ("types", [key for key in rules.types if pattern_of(key) is not None], stored),
        ("decimal_formats", rules.decimal_formats, stored),
    ]
    for block, names, there in keys:
        for name in names:
            if not any(first_of([name], column) for column in there):
                yield f"{block}: '{name}' matches no column of {of}: {_remedy(pattern_of(name) or name, columns)}"


def _remedy(pattern: str, names: Collection[str]) -> str:
    """The remedy: the nearest name, or the names that there are."""
    close = nearest(pattern.replace("\\", "").replace(".*", ""), names)
    hint = f"there are {', '.join(first_names(sorted(names), _SHOWN))}" if names else "there are none"
    return f"correct or remove it; {hint}" if close is None else f"correct or remove it; did you mean '{close}'?"
