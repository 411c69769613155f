"""Tables that continue others: once the primary key of a source table has changed, a new table has its new records.

The new table stores in the option ``OPTION`` which table it continues, for which source table, and from which offsets
on. It continues that table as soon as it has a snapshot: the first one is empty, and its position is these offsets.
Nothing else records it, so it outlives a lost checkpoint. ``with_continued`` is the one place that acts on it: it puts
an ordinary rule for the source table in front of the others. All other code sees two ordinary tables, the earlier one
without a rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from paimon_table import Catalog, TableName, TableSchema
from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.table_match import PLACEHOLDERS, Match
from pipelines.config.table_rules import TableRule
from sinks.commit.positions import FedBy, Position, nested_offsets, offsets_of

OPTION = "tidemark.continues"
"""The table option that holds it, as a JSON object."""

_LATER_NAME = re.compile(r"_v[0-9]+")


@dataclass(frozen=True, slots=True)
class Continuation:
    """The facts that a table stores about the tables before it."""

    pipeline: str
    table: str
    """The first of these tables, to which the rule of the file leads."""
    number: int
    """Its place among them: 2 for the second one."""
    source: FedBy
    earlier: tuple[tuple[str, ...], ...]
    """Their message keys."""
    begin: Mapping[str, Mapping[str, int]]
    """The first offset of the table in each partition, by topic."""
    topics: Mapping[str, str]
    """The ids of the topics that these offsets are of, where they are known."""

    @property
    def name(self) -> str:
        """The identifier of the table."""
        return f"{self.table}_v{self.number}"

    @property
    def earlier_table(self) -> str:
        """The table that it continues."""
        return self.table if self.number == 2 else f"{self.table}_v{self.number - 1}"

    def words(self, key: Sequence[str]) -> str:
        """The change as people read it; ``key`` is the new primary key of the source."""
        return f"continues table {self.earlier_table} with the primary key ({', '.join(key)}) of its source"

    @property
    def text(self) -> str:
        """The value of the option."""
        return _FORM.dump_json(self).decode()

    def begin_among(self, topic_ids: Mapping[str, str]) -> Mapping[tuple[str, int], int]:
        """The first offsets that are valid in the existing topics."""
        return Position("", offsets_of(self.begin), topics=self.topics).among(topic_ids).offsets

    def begin_in(self, topic: str, topic_ids: Mapping[str, str]) -> Mapping[int, int]:
        """The same of one topic, by partition."""
        return {partition: at for (name, partition), at in self.begin_among(topic_ids).items() if name == topic}

    def is_of(self, other: Continuation) -> bool:
        """Whether both are the same step of the same table."""
        return (self.pipeline, self.name, self.source) == (other.pipeline, other.name, other.source)


_FORM = TypeAdapter(Continuation)


def continuation_of(identifier: str, options: Mapping[str, str]) -> Continuation | None:
    """What a table with these options continues. Raises ConfigError for an option that is damaged."""
    text = options.get(OPTION)
    try:
        return None if text is None else _FORM.validate_json(text)
    except ValueError as error:
        raise ConfigError(
            f"table {identifier}: option {OPTION} is damaged, so Tidemark cannot tell which records belong to the "
            "table. Set it to its value in an earlier schema (tidemark table schemas)",
            option=OPTION,
        ) from error


def known_continuation(schema: TableSchema) -> Continuation | None:
    """The same for people who look at a table: a damaged option hides nothing else from them."""
    with suppress(ConfigError):
        return continuation_of("", schema.options)
    return None


def found_continuations(catalog: Catalog, pipeline: str, names: Collection[TableName]) -> dict[str, Continuation]:
    """The tables among ``names`` that continue others, by identifier."""
    found: dict[str, Continuation] = {}
    for name in names:
        table = catalog.find(name) if _LATER_NAME.search(name.table) is not None else None
        one = None if table is None else continuation_of(str(name), table.schema.options)
        is_own = one is not None and (one.pipeline, one.name) == (pipeline, str(name))
        if table is not None and one is not None and is_own and table.snapshots.latest_id() is not None:
            found[str(name)] = one
    return found


def newest_of(continuations: Mapping[str, Continuation]) -> Sequence[Continuation]:
    """The newest one of each table: earlier ones have been continued themselves."""
    newest: dict[str, Continuation] = {}
    for one in continuations.values():
        newest[one.table] = max(one, newest.get(one.table, one), key=_number)
    return list(newest.values())


def continued_by(continuations: Mapping[str, Continuation], identifier: str) -> str:
    """The newest table that continues a table, which has all its records then; the empty text if none does."""
    known = continuations.get(identifier)
    first = identifier if known is None else known.table
    newest = max((one for one in continuations.values() if one.table == first), key=_number, default=None)
    return "" if newest is None or newest.name == identifier else newest.name


def ended_tables(continuations: Mapping[str, Continuation]) -> set[str]:
    """The tables that others continue, by identifier: they get no more records."""
    newest = {one.name for one in newest_of(continuations)}
    return {name for one in continuations.values() for name in (one.table, one.name)} - newest


def _number(one: Continuation) -> int:
    return one.number


def tables_after(
    continuations: Mapping[str, Continuation], place: tuple[str, int], at: int, id_: str
) -> tuple[str, ...]:
    """The tables that begin after a record, which belongs to a table before them; ``id_`` is that of its topic."""
    ids = {place[0]: id_} if id_ else {}
    return tuple(
        sorted(name for name, one in continuations.items() if at < one.begin_among(ids).get(place, 0)),
    )


def with_continued(config: PipelineConfig, continuations: Mapping[str, Continuation]) -> PipelineConfig:
    """The pipeline with a rule for each table that continues the table to which its file leads a source table."""
    rules = [rule for one in newest_of(continuations) if (rule := continuing_rule(config, one)) is not None]
    return config.model_copy(update={"tables": (*rules, *config.tables)}) if rules else config


def continuing_rule(config: PipelineConfig, one: Continuation) -> TableRule | None:
    """The rule of a table that continues another one; None if the file leads the source table elsewhere."""
    names = (one.source.database, one.source.schema, one.source.table, one.source.topic)
    target = config.rule_for(*names)
    try:
        if target is None or str(target.target(*names)) != one.table:
            return None
    except ConfigError:
        return None
    exact = {key: (re.escape(name),) for key, name in zip(PLACEHOLDERS, names, strict=True) if name is not None}
    of_file = next((rule for rule in config.tables if rule.matches(*names)), None)
    if of_file is None:  # of `otherwise: create`
        of_file = TableRule(match=Match.model_validate(exact), into=one.name)
    return of_file.model_copy(update={"match": Match.model_validate(exact), "into": one.name, "backfill": False})


def with_option(rule: TableRule, one: Continuation) -> TableRule:
    """The rule by which the table is made."""
    return rule.model_copy(update={"options": {**rule.options, OPTION: one.text}})


def next_continuation(
    pipeline: str,
    identifier: str,
    before: Continuation | None,
    source: FedBy,
    key: Sequence[str],
    position: Position,
) -> Continuation:
    """The continuation of a table; ``before`` is what that one continues itself, ``key`` its message key.

    ``position`` is where the new table begins.
    """
    first = before or Continuation(pipeline, identifier, 1, source, (), {}, {})
    earlier, begin = (*first.earlier, tuple(key)), nested_offsets(position.offsets)
    return replace(first, number=first.number + 1, earlier=earlier, begin=begin, topics=position.topics)
