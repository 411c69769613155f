"""The table of a bad record, as far as an unreadable record shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from paimon_table.errors import ConfigError
from pipelines.bad_records.dead_letters import BadLine
from pipelines.config.config import PipelineConfig
from sinks.commit.positions import Position
from sources.changes import SourceTable
from sources.dumps.dump_lines import MALFORMED_PREFIX

NO_TABLE = "no table"
"""The word for records for which no rule has a table."""


SourceNames: TypeAlias = tuple[str | None, str | None, str]
"""Database, schema and table of a source table."""


def source_names(topic: str, named: SourceNames | None) -> SourceNames:
    """The names in a record, or in its topic."""
    told = SourceTable.of_topic(topic)
    return named or (told.database, told.schema, told.table)


class TargetNames:
    """Tables by the names in records or in their topics, under the present rules of the pipeline file.

    If the names of a topic match no rule, the table that the topic has fed counts, if there is only one. ``positions``
    gives the progress of each written table; it is called at most once.
    """

    def __init__(self, config: PipelineConfig, positions: Callable[[], Iterable[tuple[str, Position]]]) -> None:
        self._config = config
        self._positions = positions
        self._fed: defaultdict[str, set[str]] | None = None
        self._known: dict[tuple[str, SourceNames | None], str] = {}

    def of(self, line: BadLine) -> str:
        """The table's identifier, or words for the reason why there is none."""
        return self.table(line.topic, line.source)

    def table(self, topic: str, source: SourceNames | None) -> str:
        """As ``of``, for a record of ``topic`` that names ``source``."""
        key = (topic, source)
        if key not in self._known:
            self._known[key] = self._table(*key)
        return self._known[key]

    def _table(self, topic: str, source: SourceNames | None) -> str:
        if topic.startswith(MALFORMED_PREFIX):
            return NO_TABLE
        names = source_names(topic, source)
        rule = self._config.rule_for(*names, topic)
        try:
            if rule is not None and (source is not None or rule != self._config.created_rule()):
                return str(rule.target(*names, topic))
            fed = self._fed_by(topic)
            if len(fed) == 1:
                return next(iter(fed))
            return NO_TABLE if rule is None else str(rule.target(*names, topic))
        except ConfigError:
            return NO_TABLE

    def _fed_by(self, topic: str) -> set[str]:
        if self._fed is None:
            self._fed = defaultdict(set)
            for identifier, position in self._positions():
                for read, _ in position.offsets:
                    self._fed[read].add(identifier)
        return self._fed.get(topic, set())
