"""The rules that may still write an existing table, found by its name before any of its events arrive."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from paimon_table import TableName
from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.table_match import PLACEHOLDER, Match
from pipelines.config.table_rules import TargetRule
from sinks.commit.positions import FedBy
from sources.changes import SourceTable
from sources.topics import any_matches


def rules_for(config: PipelineConfig, name: TableName, topics: Collection[str]) -> list[TargetRule]:
    """The rules that may write ``name``, in their order, with the defaults applied.

    ``topics`` have fed the table so far. A name of the source table that neither `into` nor the topics determine may be
    any name. A rule is excluded if an earlier one certainly takes its source tables.
    """
    found: list[TargetRule] = []
    for topic in topics:
        for i, rule in enumerate(config.tables):
            names = _source_names(rule.into, name, topic)
            is_possible = names is not None and _matches(rule.match, names, unknown=True)
            if names is not None and is_possible and not _is_taken(config, i, names):
                found.append(config.target_rule(rule))
        created = config.created_rule()
        names = None if created is None else _source_names(created.into, name, topic)
        if created is not None and names is not None and not _is_taken(config, len(config.tables), names):
            found.append(created)
    return [rule for i, rule in enumerate(found) if rule not in found[:i]]


def possible_rules(config: PipelineConfig, name: TableName) -> list[TargetRule]:
    """The rules whose `into` may give the name, for any topic, with the defaults applied."""
    created = config.created_rule()
    rules = [config.target_rule(rule) for rule in config.tables if _names_in(rule.into, name) is not None]
    return rules if created is None or _names_in(created.into, name) is None else [*rules, created]


def topics_for(config: PipelineConfig, name: TableName, topics: Collection[str]) -> set[str]:
    """The ``topics`` whose records the rules may route to ``name``."""
    created = config.created_rule()
    if created is not None and _names_in(created.into, name) is not None:
        return set(topics)
    rules = [rule for rule in config.tables if _names_in(rule.into, name) is not None]
    return {topic for topic in topics if any(rule.match.takes_topic(topic) for rule in rules)}


def may_write(config: PipelineConfig, name: TableName) -> bool:
    """Whether any rule may give the name, for any topic."""
    return bool(possible_rules(config, name))


def agreed_rule(rules: Collection[TargetRule]) -> TargetRule | None:
    """The rule of a table if all rules that may write it are alike; otherwise only its events can decide."""
    first, *others = rules
    return first if all(replace(other, into=first.into) == first for other in others) else None


def known_sources(config: PipelineConfig, name: TableName, fed: Iterable[FedBy]) -> dict[SourceTable, TargetRule]:
    """The source tables in ``fed`` that rules still route to ``name``, with their rules."""
    found: dict[SourceTable, TargetRule] = {}
    for source in fed:
        rule, target = _rule_of(config, source)
        if rule is not None and target == name:
            found[SourceTable(source.topic, source.database, source.schema, source.table)] = rule
    return found


def led_to(config: PipelineConfig, source: FedBy) -> TableName | None:
    """The table to which a rule routes a source table; None if no rule does, or if only its events can decide."""
    return _rule_of(config, source)[1]


def is_ruleless(config: PipelineConfig, name: TableName, source: FedBy) -> bool:
    """Whether no rule routes a source table to ``name``; False if only its events can decide."""
    rule, target = _rule_of(config, source)
    return rule is None or target not in (None, name)


def _rule_of(config: PipelineConfig, source: FedBy) -> tuple[TargetRule | None, TableName | None]:
    """The rule of a source table, and its target; None if only its events can decide."""
    names = (source.database, source.schema, source.table, source.topic)
    rule = config.rule_for(*names)
    with suppress(ConfigError):
        return rule, None if rule is None else rule.target(*names)
    return rule, None


def leading_rules(
    config: PipelineConfig, name: TableName, sources: Collection[FedBy], topics: Collection[str]
) -> Collection[TargetRule]:
    """The rules that still route the known source tables of ``name`` to it."""
    if sources:
        others = {*topics} - {source.topic for source in sources}  # of which it may have no record yet
        return known_sources(config, name, sources).values() or rules_for(config, name, sorted(others))
    return rules_for(config, name, sorted(topics)) if topics else possible_rules(config, name)


def _source_names(into: str, name: TableName, topic: str) -> dict[str, str] | None:
    """The names that ``into`` and the topic give the source table if it maps to ``name``; None if it cannot."""
    names = _names_in(into, name)
    return {**names, "topic": topic} if names is not None and names.get("topic", topic) == topic else None


def _names_in(into: str, name: TableName) -> dict[str, str] | None:
    """The names that ``into`` gives the source table if it maps to ``name``; None if it cannot."""
    found = None if "." in name.database else _pattern_of(into).fullmatch(str(name))
    return None if found is None else found.groupdict()


@cache
def _pattern_of(into: str) -> re.Pattern[str]:
    """A pattern for the table names that ``into`` gives, with the names of the source as groups.

    Only after the first dot, in the table's own name, may a name of the source contain dots.
    """
    pattern, seen, one_name = "", set[str](), "[^.]+"
    for i, part in enumerate(PLACEHOLDER.split(into)):
        if i % 2 == 0:
            pattern += re.escape(part)
            one_name = ".+" if "." in part else one_name
        elif part in seen:
            pattern += f"(?P={part})"
        else:
            seen.add(part)
            pattern += f"(?P<{part}>{one_name})"
    return re.compile(pattern)


def _is_taken(config: PipelineConfig, before: int, names: Mapping[str, str]) -> bool:
    return any(_matches(rule.match, names, unknown=False) for rule in config.tables[:before])


def _matches(match: Match, names: Mapping[str, str], *, unknown: bool) -> bool:
    """Whether all patterns match; ``unknown`` is the answer for names that are not known."""
    if match.exclude is not None and (any_matches(match.exclude, names["table"]) if "table" in names else not unknown):
        return False
    return all(
        patterns is None or (any_matches(patterns, names[key]) if key in names else unknown)
        for key, patterns in match.by_name.items()
    )
